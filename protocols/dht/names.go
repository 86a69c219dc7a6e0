package dht

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/internal/jitter"
	"allium/protocols/dht/messages"
	"allium/protocols/dht/namestore"
	"allium/protocols/dht/persist"
	"allium/protocols/dht/probes"
	"allium/protocols/kad"
	"allium/protocols/name"
)

const (
	// nameHolders is the number of holders that must have a record before a lookup takes the highest of theirs.
	nameHolders = 3

	// NamesSpace is the datastore namespace of the name records that this node holds.
	NamesSpace = "names"

	floorsSpace = "floors" // the highest records of names that this node has seen

	passOnEvery    = time.Second // interval of checks for records to be passed on
	passOnParallel = 4           // records passed on at a time; more wait for the next check
	mendTimeout    = 5 * time.Second
)

// putName verifies the record of a request and stores it. Anybody may put a valid record, as
// holders pass records on.
func (v *server) putName(ctx context.Context, from network.Conn, q messages.Request) error {
	rec, err := v.verify.openName(ctx, q.Envelope)
	if err != nil {
		return err
	}
	if rec.Name.Digest() != q.Name() {
		return messages.Refuse(messages.WrongKey, nil)
	}
	at, _ := v.dialback.Source(from)
	return v.names.Put(rec, at.Group, v.verify.now())
}

// openName verifies the record of a name and checks it at the current time.
func (v *verifier) openName(ctx context.Context, envelope []byte) (name.Signed, error) {
	leave, err := v.enter(ctx)
	if err != nil {
		return name.Signed{}, err
	}
	defer leave()
	rec, err := name.Open(envelope, v.now())
	if err != nil {
		return name.Signed{}, err
	}
	return rec, nil
}

// Names is this node's part in names: it finds and publishes their records, and holds those of others. Its methods are
// safe for concurrent use.
type Names struct {
	deps      Deps
	cfg       *atomic.Pointer[Config]
	m         *metrics
	verify    *verifier
	providers *providerClient
	walk      *walker
	near      *neighbours

	names        *namestore.Store
	seen         *namestore.Seen
	persistNames [2]*persist.Persister[namestore.Key] // of names and seen
}

// newNames makes the stores of name records, and what persists them.
func newNames(s *Service) *Names {
	n := &Names{
		deps: s.deps, cfg: &s.cfg, m: s.m, verify: s.verify, providers: s.providers, walk: s.walk, near: s.near,
		names: namestore.NewStore(s.cfg.Load().Names, s.deps.MayExpire),
	}
	deps := persist.Deps{
		Env:       s.deps.Env,
		Datastore: s.namespace(NamesSpace), Replacements: s.deps.Replacements, MayExpire: s.deps.MayExpire,
		Count: s.m.namesPersisted,
	}
	persisted := deps.Datastore != nil
	table := namestore.Table{Store: n.names}
	if persisted {
		table = namestore.NewTable(n.names, s.verify.openName, s.deps.Now)
	}
	n.persistNames[0] = persist.New[namestore.Key](table, deps)
	n.seen = namestore.NewSeen(persisted)
	deps.Datastore = s.namespace(floorsSpace)
	n.persistNames[1] = persist.New[namestore.Key](n.seen, deps)
	return n
}

// FindName asks the peers closest to a name for its record, and returns what the first three
// holders have, or all holders that answer in time (SPEC §6). Unless fresh is set, the record
// that this node holds counts as that of one holder. Holders that were behind are given the
// highest record in the background. t, which may be nil, records the steps.
//
// The result is empty if no peer holds a record. Errors are those of [Service.FindProviders], stale if the records
// found are older than one that this node has verified before, and equivocation if it has another value with the same
// sequence number. An error is returned only beside an empty result.
func (s *Names) FindName(
	ctx context.Context, n name.Name, fresh bool, t *probes.Trace,
) (name.Versions, error) {
	f := &nameSearch{s: s, key: n.Digest(), seqs: map[peer.ID]uint64{}}
	want := nameHolders
	if !fresh {
		for _, rec := range s.names.Get(f.key, s.deps.Now()) {
			f.best, _ = f.best.Add(rec)
			want = nameHolders - 1
		}
	}
	r, ctx, end, err := s.walk.lookups.begin(ctx)
	if err != nil {
		return f.best, f.unless(err)
	}
	_, err = r.engine.run(ctx, search{
		op: opFindName, key: []byte(name.KeyOf(f.key)), cfg: s.cfg.Load().findConfig(), quorum: kad.Values(want),
		ask: f.ask, trace: t,
	})
	best, behind := f.result()
	if len(behind) > 0 {
		r.lookups.Go(func() { s.mend(r.ctx, best, behind) })
	}
	end()
	if err := s.seen.Raise(best); err != nil {
		return name.Versions{}, err
	}
	return best, f.unless(err)
}

// nameSearch is one search for the record of a name.
type nameSearch struct {
	s   *Names
	key namestore.Key

	mu   sync.Mutex // lock: leaf
	best name.Versions
	seqs map[peer.ID]uint64 // what each peer answered; 0: it has no record
}

// ask sends p a get and verifies the records of the response.
func (f *nameSearch) ask(ctx context.Context, p peer.ID) (a answer, err error) {
	r, err := f.s.providers.getName(ctx, p, f.key)
	if err != nil {
		return a, err
	}
	var held name.Versions
	for _, w := range r.Providers[:min(len(r.Providers), 2)] {
		rec, err := f.s.verify.openName(ctx, w.Envelope)
		if err == nil && rec.Name.Digest() != f.key {
			err = messages.Refuse(messages.WrongKey, nil)
		}
		if err != nil {
			f.s.m.refused(err)
			continue
		}
		held, _ = held.Add(rec)
		a.values = 1
	}
	a.closer = r.CloserPeers()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.best = f.best.Merge(held)
	f.seqs[p] = held.Seq()
	return a, nil
}

// result returns the highest record, and the peers that hold an older one.
func (f *nameSearch) result() (best name.Versions, behind []peer.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p, seq := range f.seqs {
		if seq != 0 && seq < f.best.Seq() {
			behind = append(behind, p)
		}
	}
	return f.best, behind
}

// unless returns err if nothing was found.
func (f *nameSearch) unless(err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.best.Seq() > 0 {
		return nil
	}
	return err
}

// mend gives peers that hold an older record the highest one.
func (s *Names) mend(ctx context.Context, best name.Versions, behind []peer.ID) {
	ctx, cancel := context.WithTimeout(ctx, mendTimeout)
	defer cancel()
	for _, rec := range best.Records() {
		_, _ = s.putNameTo(ctx, behind, rec) // the next lookup tries again
	}
}

// PublishName stores a signed record and sends it to the k peers closest to its name; a smaller
// network's peers all receive it. It returns the number of acknowledgements. The error is a
// *[name.RecordError], namestore.ErrStale, namestore.ErrEquivocation, no_bootstrap if no peer is known,
// or what the peers answered. It takes at most Config.PublishTimeout. While the clock is wrong
// it is not_ready.
func (s *Names) PublishName(ctx context.Context, rec name.Signed) (int, error) {
	if s.deps.ClockWrong() {
		return 0, errClock
	}
	if err := rec.Check(s.deps.Now()); err != nil {
		return 0, err
	}
	own, _ := name.Versions{}.Add(rec)
	if err := s.seen.Raise(own); err != nil {
		return 0, err
	}
	if err := s.names.Put(rec, "", s.deps.Now()); err != nil && !errors.Is(err, namestore.ErrFull) {
		return 0, err
	}
	return s.sendName(ctx, rec)
}

// HeldNames returns the records of a zone that this node holds, in no order.
func (s *Names) HeldNames(zone name.Zone) []name.Signed { return s.names.OfZone(zone, s.deps.Now()) }

// NameFloor returns the highest sequence number of a name that this node has looked up or published, 0
// if it knows none.
func (s *Names) NameFloor(n name.Name) uint64 { return s.seen.Seq(n) }

// sendName sends a record to the peers that are closest to its name.
func (s *Names) sendName(ctx context.Context, rec name.Signed) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Load().PublishTimeout)
	defer cancel()
	peers, _, err := s.walk.closest(ctx, opPublishName, s.cfg.Load().publishConfig(), []byte(rec.Name.Key()))
	if err != nil {
		return 0, fmt.Errorf("publish %s: %w", rec.Name, err)
	}
	return s.putNameTo(ctx, peers, rec)
}

// putNameTo sends a record to peers and returns the number of acknowledgements. If no peer took
// the record, it returns the last error.
func (s *Names) putNameTo(ctx context.Context, peers []peer.ID, rec name.Signed) (int, error) {
	return putAll(peers, func(p peer.ID) error { return s.providers.putName(ctx, p, rec) })
}

// UpdateName stores a verified record that came by gossip, if this node holds an older one of the
// name. It keeps the place of that.
func (s *Names) UpdateName(rec name.Signed) { s.names.Update(rec, s.deps.Now()) }

// passOn publishes the records of others whose time has come, until ctx ends. Nothing is
// passed on while the clock is wrong.
func (s *Names) passOn(ctx context.Context) {
	for jitter.Sleep(ctx, jitter.Gather(passOnEvery)) {
		if s.deps.ClockWrong() || s.near.table.Size() == 0 {
			continue
		}
		var work errgroup.Group
		work.SetLimit(passOnParallel)
		for _, rec := range s.names.Due(passOnParallel, s.deps.Now()) {
			work.Go(func() error {
				_, err := s.sendName(ctx, rec)
				s.m.passedOn(err)
				return nil // the next check passes on others
			})
		}
		_ = work.Wait() // no call returns an error
	}
}

// Held holds what this node knows of a name without asking.
type Held struct {
	Versions name.Versions // empty: nothing is known
	Age      time.Duration // since it was looked up; 0 if it was not, as TTL
	TTL      time.Duration // for which it need not be looked up
	Stale    bool          // it was looked up, and TTL has passed
}

// HeldName returns the records of a name that this node holds for others, which are in force, or remembers of a
// lookup, if their TTL or life ended at most maxStale ago.
func (s *Names) HeldName(n name.Name, maxStale time.Duration) (h Held) {
	now := s.deps.Now()
	if f, ok := s.seen.Get(n); ok && f.Versions.Seq() > 0 && f.Serves(now, maxStale) {
		h = Held{Versions: f.Versions, Age: now.Sub(f.At), TTL: max(0, f.Until.Sub(now))}
		h.Stale = h.TTL == 0
	}
	for _, rec := range s.names.Get(n.Digest(), now) {
		h.Stale = h.Stale && rec.Seq <= h.Versions.Seq()
		h.Versions, _ = h.Versions.Add(rec)
	}
	return h
}

// Seen returns what this node remembers of the names that it has looked up, published or followed.
func (s *Names) Seen() *namestore.Seen { return s.seen }

// OpenName verifies the record of a name, which must be in force. It waits as [Service.OpenProvider] does. The
// error is a *[name.RecordError] if the record is refused.
func (s *Names) OpenName(ctx context.Context, envelope []byte) (name.Signed, error) {
	rec, err := s.verify.openName(ctx, envelope)
	if err != nil {
		s.m.refused(err)
		return name.Signed{}, err
	}
	return rec, nil
}

// SawName returns stale if this node has verified a newer record of the name, and equivocation if it
// has verified another value with the same sequence number. Otherwise no later lookup goes back
// behind v.
func (s *Names) SawName(v name.Versions) error { return s.seen.Raise(v) }
