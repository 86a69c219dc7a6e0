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
	"allium/internal/tasks"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Bounds and intervals.
const (
	listEvery  = time.Hour
	watchEvery = time.Minute      // interval at which the lag is checked and the due times are stored
	healEvery  = 10 * time.Minute // interval at which due cells are published that the library left out
	healAfter  = 10 * time.Minute // how late such a cell must be
	maxHeal    = 1024             // roots that wait to be published this way; one cell may exceed it
	lateWarn   = time.Hour

	batch       = 4096             // roots written at a time while listing
	resetBuffer = 1 << 14          // roots added during a listing; when full, Add waits
	rootsEach   = 2                // roots that a worker publishes at a time
	putsEach    = 10               // PUTs of a root at a time
	closeWait   = 10 * time.Second // time for the last write
	renewEvery  = 10 * time.Second // interval of checks whether the datastore was replaced
	retryFirst  = time.Second      // first wait after the datastore failed; each further wait is twice as long
	retryMost   = time.Minute
)

// The keys and namespaces in the datastore.
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
	added atomic.Bool // Add was called since the keystore was last replaced
	last  listing     // used only by Run
	seen  uint64      // used only by Run: Deps.Replacements at the last listing

	mu  sync.Mutex // lock: leaf
	run *running   // nil unless Run is between ready and its end
}

// running holds what exists only while Run runs.
type running struct {
	store ds.Batching
	keys  *keystore.ResettableKeystore
	lib   atomic.Pointer[provider.SweepingProvider] // nil until the first listing has ended
}

// New returns a Sweep that is not running. It starts nothing.
func New(cfg Config, deps Deps) (*Sweep, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.validate(); err != nil {
		return nil, err
	}
	deps.Env.SetDefaults()
	s := &Sweep{cfg: cfg, deps: deps, log: deps.Log}
	var err error
	if s.m, err = newMetrics(deps.Metrics, s.Lag); err != nil {
		return nil, fmt.Errorf("register sweep metrics: %w", err)
	}
	deps.Tasks.List(tasks.Info{
		Name: "dht.sweep", Kind: tasks.Worker, Started: true, Owner: "protocols/dht/sweep", Count: cfg.Workers,
		Restart: "the process ends", Doc: "publish provider records again, a region of the key space each",
	})
	return s, nil
}

// Run sweeps until ctx ends. It calls ready once roots can be added, or when the datastore has
// failed for the first time. The first listing and the network come after that. Run tries
// again after an error of the datastore, so no disk makes it fail.
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

	// The library starts with the current listing: roots dropped while the node was off are not
	// published, and roots added meanwhile are.
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

// until calls a function until it succeeds. It returns false if ctx ended first.
func (s *Sweep) until(ctx context.Context, what string, do func() error) bool {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		if wait == retryFirst {
			s.log.Warn("the sweep failed and tries again: until then records are not published before they expire. "+
				"Check that the disk has space and is writable", "step", what, "error", err)
		}
		if limits.Sleep(ctx, wait) != nil {
			return false
		}
	}
}

// renewedTimes returns how often the datastore was replaced.
func (s *Sweep) renewedTimes() uint64 {
	if s.deps.Replacements == nil {
		return 0
	}
	return s.deps.Replacements()
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
		return nil, fmt.Errorf("read the due times: %w", err)
	case !s.due.restore(p, time.Now().Add(s.period())):
		s.log.Warn("the sweep's due times cannot be read; all is taken to be due", "bytes", len(p))
	}
	r.keys, err = keystore.NewResettableKeystore(namespace.Wrap(r.store, keysAt),
		keystore.KeystoreOption(keystore.WithBatchSize(batch)), keystore.WithResetBufferCapacity(resetBuffer))
	if err != nil {
		return nil, fmt.Errorf("open the keystore: %w", err)
	}
	return r, nil
}

// start starts the library.
func (s *Sweep) start(ctx context.Context, r *running) (*provider.SweepingProvider, error) {
	to := newPlacer(ctx, s.cfg, s.deps, s.published, s.m)
	lib, err := provider.New(
		provider.WithPeerID(s.deps.Self),
		provider.WithRouter(&router{
			run: ctx, self: s.deps.Self, k: s.cfg.K, addrs: s.deps.Addrs, next: s.deps.Router, saw: to.saw,
		}),
		provider.WithMessageSender(sender{to}),
		provider.WithSelfAddrs(func() []ma.Multiaddr { return placeholder }),
		provider.WithKeystore(r.keys),
		provider.WithDatastore(namespace.Wrap(uncanceled{r.store}, cycleAt)),
		provider.WithReplicationFactor(s.cfg.K),
		provider.WithReprovideInterval(s.cfg.Interval),
		provider.WithMaxReprovideDelay(s.cfg.MaxDelay),
		provider.WithMaxWorkers(s.cfg.Workers),
		// A single worker serves both kinds of work. Of several, some are reserved for each kind.
		provider.WithDedicatedPeriodicWorkers(s.cfg.Workers/2),
		provider.WithDedicatedBurstWorkers(s.cfg.Workers/4),
		provider.WithMaxProvideConnsPerWorker(rootsEach),
		provider.WithSendProviderRecordTimeout(sendTimeout),
	)
	if err != nil {
		return nil, fmt.Errorf("start the provider: %w", err)
	}
	return lib, nil
}

// placeholder is the address that the library has for this node. It puts the address into its
// messages, which are never sent. Without an address it would drop regions.
var placeholder = []ma.Multiaddr{ma.StringCast("/ip4/127.0.0.1/tcp/1")}

// close closes the library, stores the due times and closes the keystore.
func (s *Sweep) close(ctx context.Context, r *running) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	var errs []error
	if lib := r.lib.Load(); lib != nil {
		errs = append(errs, lib.Close())
	}
	errs = append(errs, s.save(ctx, r), r.keys.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop the sweep: %w", err)
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

// Add schedules roots that have just been published. They stay scheduled across restarts, and
// Add does not publish them. Before Run is ready it returns status.NotReady; the listing at the
// start then includes the roots.
func (s *Sweep) Add(ctx context.Context, roots ...b3.Root) error {
	r := s.running()
	if r == nil {
		return status.Errorf(status.NotReady, "the sweep is not running")
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

// addError gives an error of Add its outcome.
func addError(n int, err error) error {
	if errors.Is(err, keystore.ErrClosed) || errors.Is(err, provider.ErrClosed) {
		return status.Errorf(status.NotReady, "the sweep is stopping: %w", err)
	}
	return fmt.Errorf("add %d roots to the sweep: %w", n, err)
}

// Lag returns how late the oldest due record is: the time since its last acknowledgement, less
// Config.Interval and Config.MaxDelay. It returns 0 if none is due.
func (s *Sweep) Lag() time.Duration { return s.due.lag(time.Now()) }

// period returns the longest time between two publishings of a record that is not late.
func (s *Sweep) period() time.Duration { return s.cfg.Interval + s.cfg.MaxDelay }

// published records an acknowledgement.
func (s *Sweep) published(root b3.Root) { s.due.done(root, time.Now().Add(s.period())) }

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
