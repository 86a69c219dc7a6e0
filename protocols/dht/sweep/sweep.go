package sweep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/namespace"
	dssync "github.com/ipfs/go-datastore/sync"
	"github.com/libp2p/go-libp2p-kad-dht/provider"
	"github.com/libp2p/go-libp2p-kad-dht/provider/keystore"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/multiformats/go-multihash"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Bounds and paces.
const (
	listEvery  = time.Hour
	watchEvery = time.Minute      // the lag is looked at and the due times are stored
	healEvery  = 10 * time.Minute // what is due and waits nowhere is published
	healAfter  = 10 * time.Minute // that late at least
	maxHeal    = 1024             // roots waiting to be published so, but for those of one cell
	lateWarn   = time.Hour

	batch       = 4096             // roots written at one time while listing
	resetBuffer = 1 << 14          // roots added while listing; then Add waits
	rootsEach   = 2                // roots published at one time by a worker
	putsEach    = 10               // PUTs of a root at one time
	statsWait   = 5 * time.Second  // for the keystore, which does one thing at a time
	closeWait   = 10 * time.Second // for the last write
	renewEvery  = 10 * time.Second // it is looked whether the datastore is another one
	retryFirst  = time.Second      // what the datastore refused is tried again, then after twice as long
	retryMost   = time.Minute
)

// Places in the datastore.
var (
	keysAt  = ds.NewKey("keys")  // the keystore's
	cycleAt = ds.NewKey("cycle") // the library's schedule and history
	dueAt   = ds.NewKey("due")   // the due times
)

// Sweep publishes records again before they expire.
type Sweep struct {
	cfg  Config
	deps Deps
	log  *slog.Logger
	m    *metrics

	due   dueTable
	added atomic.Bool // since the keystore was last replaced
	last  listing     // Run's alone
	seen  uint64      // Run's alone: Renewed when it was listed last

	mu  sync.Mutex
	run *running // nil unless Run is between ready and its end
}

// running is what exists while Run does.
type running struct {
	store ds.Batching
	keys  *keystore.ResettableKeystore
	lib   atomic.Pointer[provider.SweepingProvider] // nil until the first listing is done
}

// New checks the configuration and starts nothing.
func New(cfg Config, deps Deps) (*Sweep, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.validate(); err != nil {
		return nil, err
	}
	s := &Sweep{cfg: cfg, deps: deps, log: deps.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if s.m, err = newMetrics(deps.Metrics, s.Lag); err != nil {
		return nil, fmt.Errorf("sweep: metrics: %w", err)
	}
	return s, nil
}

// Run sweeps until ctx ends. ready is called once roots can be added, or the
// datastore has refused for the first time; the first listing and the network
// come after. What the datastore refuses is tried again, so no disk makes Run
// fail.
func (s *Sweep) Run(ctx context.Context, ready func()) error {
	ready = sync.OnceFunc(ready)
	var r *running
	opened := s.until(ctx, "open", func() (err error) {
		defer ready()
		r, err = s.open(ctx)
		return err
	})
	if !opened {
		return nil
	}
	s.setRunning(r)
	defer func() {
		s.setRunning(nil)
		if err := s.close(ctx, r); err != nil {
			s.log.Warn("the sweep's state was not stored: the next start lists again what is announced", "error", err)
		}
	}()

	// The library starts with the keys as they are now: what was dropped while
	// the node was off is not published, what was added then is.
	listed := s.until(ctx, "list", func() error { return s.list(ctx, r) })
	if !listed || !s.until(ctx, "start", func() error {
		lib, err := s.start(ctx, r)
		if err == nil {
			r.lib.Store(lib)
		}
		return err
	}) {
		return nil
	}
	var tasks sync.WaitGroup
	tasks.Go(func() { s.watch(ctx, r) })
	tasks.Go(func() { s.tend(ctx, r) })
	tasks.Wait()
	return nil
}

// until does something until it succeeds, and reports false when ctx ended first.
func (s *Sweep) until(ctx context.Context, what string, do func() error) bool {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		if wait == retryFirst {
			s.log.Warn("the sweep cannot go on and tries again: until then nothing is published before it expires. See that the disk has room and is writable", "step", what, "error", err)
		}
		if limits.Sleep(ctx, wait) != nil {
			return false
		}
	}
}

// renewedTimes is how often the datastore was replaced.
func (s *Sweep) renewedTimes() uint64 {
	if s.deps.Renewed == nil {
		return 0
	}
	return s.deps.Renewed()
}

// open reads the state of the last run.
func (s *Sweep) open(ctx context.Context) (*running, error) {
	r := &running{store: s.deps.Datastore}
	if r.store == nil {
		r.store = dssync.MutexWrap(ds.NewMapDatastore())
	}
	p, err := r.store.Get(ctx, dueAt)
	switch {
	case errors.Is(err, ds.ErrNotFound):
	case err != nil:
		return nil, fmt.Errorf("sweep: read the due times: %w", err)
	case !s.due.restore(p, time.Now().Add(s.period())):
		s.log.Warn("the sweep's due times cannot be read; all is taken to be due", "bytes", len(p))
	}
	r.keys, err = keystore.NewResettableKeystore(namespace.Wrap(r.store, keysAt),
		keystore.KeystoreOption(keystore.WithBatchSize(batch)), keystore.WithResetBufferCapacity(resetBuffer))
	if err != nil {
		return nil, fmt.Errorf("sweep: open the keystore: %w", err)
	}
	return r, nil
}

// start runs the library.
func (s *Sweep) start(ctx context.Context, r *running) (*provider.SweepingProvider, error) {
	to := newPlacer(ctx, s.cfg, s.deps, s.published, s.m)
	lib, err := provider.New(
		provider.WithPeerID(s.deps.Self),
		provider.WithRouter(&router{run: ctx, self: s.deps.Self, k: s.cfg.K, addrs: s.deps.Addrs, next: s.deps.Router, saw: to.saw}),
		provider.WithMessageSender(sender{to}),
		provider.WithSelfAddrs(func() []ma.Multiaddr { return placeholder }),
		provider.WithKeystore(r.keys),
		provider.WithDatastore(namespace.Wrap(r.store, cycleAt)),
		provider.WithReplicationFactor(s.cfg.K),
		provider.WithReprovideInterval(s.cfg.Interval),
		provider.WithMaxReprovideDelay(s.cfg.MaxDelay),
		provider.WithMaxWorkers(s.cfg.Workers),
		// One worker serves both; of more, some are kept for each kind.
		provider.WithDedicatedPeriodicWorkers(s.cfg.Workers/2),
		provider.WithDedicatedBurstWorkers(s.cfg.Workers/4),
		provider.WithMaxProvideConnsPerWorker(rootsEach),
		provider.WithSendProviderRecordTimeout(sendTimeout),
	)
	if err != nil {
		return nil, fmt.Errorf("sweep: start the provider: %w", err)
	}
	return lib, nil
}

// placeholder is what the library takes for our address. It puts it into its
// messages, where nobody reads it, and forgets a region when it has none.
var placeholder = []ma.Multiaddr{ma.StringCast("/ip4/127.0.0.1/tcp/1")}

// close ends the library, then the keystore, and stores the due times.
func (s *Sweep) close(ctx context.Context, r *running) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	var errs []error
	if lib := r.lib.Load(); lib != nil {
		errs = append(errs, lib.Close())
	}
	errs = append(errs, s.save(ctx, r), r.keys.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sweep: stop: %w", err)
	}
	return nil
}

// save stores the due times if they have changed.
func (s *Sweep) save(ctx context.Context, r *running) error {
	p := s.due.snapshot()
	if p == nil {
		return nil
	}
	err := r.store.Put(ctx, dueAt, p)
	if err == nil {
		err = r.store.Sync(ctx, dueAt)
	}
	if err != nil {
		s.due.again()
	}
	return err
}

// Add schedules roots that have just been published by someone else. It keeps
// them over restarts and does not publish them now. Before Run is ready it
// returns status.NotReady: the listing at the start then has them.
func (s *Sweep) Add(ctx context.Context, roots ...b3.Root) error {
	r := s.running()
	if r == nil {
		return status.Errorf(status.NotReady, "sweep: not running")
	}
	keys := make([]multihash.Multihash, len(roots))
	for i, root := range roots {
		keys[i] = root.Multihash()
	}
	s.added.Store(true)
	if _, err := r.keys.Put(ctx, keys...); err != nil {
		return addError(len(roots), err)
	}
	next := time.Now().Add(s.period())
	for _, root := range roots {
		s.due.seen(root, next)
	}
	if lib := r.lib.Load(); lib != nil {
		if err := lib.AddToSchedule(keys...); err != nil {
			return addError(len(roots), err)
		}
	}
	return nil
}

// addError gives what stopped an Add its outcome.
func addError(n int, err error) error {
	if errors.Is(err, keystore.ErrClosed) || errors.Is(err, provider.ErrClosed) {
		return status.Errorf(status.NotReady, "sweep: stopping: %w", err)
	}
	return fmt.Errorf("sweep: add %d roots: %w", n, err)
}

// Lag is how late the oldest record is whose republishing is due: since its
// last acknowledgement Config.Interval and Config.MaxDelay have passed and this
// much more. It is 0 when none is due.
func (s *Sweep) Lag() time.Duration { return s.due.lag(time.Now()) }

// period is the longest time between two publishings that is nothing to speak
// of.
func (s *Sweep) period() time.Duration { return s.cfg.Interval + s.cfg.MaxDelay }

// published notes an acknowledgement.
func (s *Sweep) published(root b3.Root) { s.due.done(root, time.Now().Add(s.period())) }

// Stats is a snapshot of the sweep.
type Stats struct {
	Online  bool      // the last lookup found peers
	Roots   int       // announced; -1 when the keystore does not tell
	Regions int       // parts of the key space with roots
	Late    int       // of those, waiting to be tried again
	Next    time.Time // when the next region is due; zero when none is scheduled
	Lag     time.Duration
}

// Stats says how the sweep does. Before the first listing is done it returns
// status.NotReady.
func (s *Sweep) Stats(ctx context.Context) (Stats, error) {
	r := s.running()
	if r == nil || r.lib.Load() == nil {
		return Stats{}, status.Errorf(status.NotReady, "sweep: not running")
	}
	ctx, cancel := context.WithTimeout(ctx, statsWait)
	defer cancel()
	st, err := r.lib.Load().Stats(ctx)
	if err != nil {
		return Stats{}, fmt.Errorf("sweep: stats: %w", err)
	}
	return Stats{
		Online: st.Connectivity.Status == "online", Roots: int(st.Schedule.Keys), Regions: int(st.Schedule.Regions),
		Late: int(st.Queues.PendingRegionReprovides), Next: st.Schedule.NextReprovideAt, Lag: s.Lag(),
	}, nil
}

func (s *Sweep) setRunning(r *running) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = r
}

func (s *Sweep) running() *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run
}
