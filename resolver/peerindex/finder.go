package peerindex

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/names"
	"allium/resolver/providers"
)

// Index asks a peer what it knows, and returns what it has proved: the client of protocols/index.
type Index interface {
	Providers(ctx context.Context, p peer.ID, root b3.Root, limit int) ([]record.Provider, error)
	Name(ctx context.Context, p peer.ID, n name.Name) (name.Versions, error)
}

// Config says whom to ask.
type Config struct {
	Peers      []peer.AddrInfo // in the order in which they are asked; at least one
	HedgeAfter time.Duration   // after which a silent source is joined by the next
}

// Deps are what a [Finder] works with. All are required.
type Deps struct {
	Index     Index
	Dialer    providers.Dialer
	Providers providers.Finder // asked after the peers
	Names     names.Finder     // asked after the peers; may be nil, as FindName is then not called
}

// Finder asks peers before the DHT. It is safe for concurrent use.
type Finder struct {
	cfg  Config
	deps Deps
}

// New returns a Finder. It starts nothing.
func New(cfg Config, d Deps) *Finder { return &Finder{cfg, d} }

var (
	_ providers.Finder = (*Finder)(nil)
	_ names.Finder     = (*Finder)(nil)
)

// FindProviders implements [providers.Finder]. Each provider is yielded once.
func (f *Finder) FindProviders(
	ctx context.Context, root b3.Root, opt providers.FindOptions,
) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		steps := newSteps(opt.Trace)
		sources := make([]source[record.Provider], 0, len(f.cfg.Peers)+1)
		for i, p := range f.cfg.Peers {
			sources = append(sources, func(ctx context.Context, emit func(record.Provider) bool) error {
				done := steps.start(p.ID, i > 0)
				f.deps.Dialer.AddAddrs(p)
				found, err := f.deps.Index.Providers(ctx, p.ID, root, opt.Limit)
				done(len(found), err)
				for _, got := range found {
					if !emit(got) {
						return nil
					}
				}
				return unlessAbsent(err)
			})
		}
		sources = append(sources, func(ctx context.Context, emit func(record.Provider) bool) error {
			var last error
			for got, err := range f.deps.Providers.FindProviders(ctx, root, opt) {
				if err != nil {
					last = err
				} else if !emit(got) {
					return nil
				}
			}
			return last
		})
		seen := map[peer.ID]struct{}{}
		left := opt.Limit
		err := race(ctx, f.cfg.HedgeAfter, opt.Fresh, sources, func(got record.Provider) bool {
			if _, again := seen[got.ID]; again {
				return true
			}
			seen[got.ID] = struct{}{}
			left--
			return yield(got, nil) && left != 0
		})
		steps.finish()
		if err = steps.final(err); err != nil {
			yield(record.Provider{}, err)
		}
	}
}

// FindName implements [names.Finder].
func (f *Finder) FindName(
	ctx context.Context, n name.Name, fresh bool, t *probes.Trace,
) (name.Versions, record.Origin, error) {
	type answer struct {
		v    name.Versions
		from record.Origin
	}
	var atEnd answer // of the DHT, which returns what it has when ctx ends
	steps := newSteps(t)
	sources := make([]source[answer], 0, len(f.cfg.Peers)+1)
	for i, p := range f.cfg.Peers {
		sources = append(sources, func(ctx context.Context, emit func(answer) bool) error {
			done := steps.start(p.ID, i > 0)
			f.deps.Dialer.AddAddrs(p)
			v, err := f.deps.Index.Name(ctx, p.ID, n)
			done(len(v.Records()), err)
			if err == nil {
				emit(answer{v, record.OriginServed})
			}
			return unlessAbsent(err)
		})
	}
	sources = append(sources, func(ctx context.Context, emit func(answer) bool) error {
		v, from, err := f.deps.Names.FindName(ctx, n, fresh, t)
		if atEnd = (answer{v, from}); v.Seq() > 0 {
			emit(atEnd)
		}
		return err
	})
	best := answer{from: record.OriginDHT}
	err := race(ctx, f.cfg.HedgeAfter, fresh, sources, func(a answer) bool {
		if a.v.Seq() > best.v.Seq() {
			best.from = a.from
		}
		best.v = best.v.Merge(a.v)
		return fresh
	})
	steps.finish()
	if atEnd.v.Seq() > best.v.Seq() && (fresh || best.v.Seq() == 0) {
		best = atEnd
	}
	if best.v.Seq() > 0 {
		return best.v, best.from, nil
	}
	return best.v, best.from, steps.final(err)
}

// unlessAbsent returns nil if err says that a peer knows nothing, which is no failure of the search.
func unlessAbsent(err error) error {
	if status.Of(err) == status.NotFound {
		return nil
	}
	return err
}

// steps records the requests to peers in the trace of a search, in front of those of the DHT. The
// DHT writes its own steps while the search runs.
type steps struct {
	trace *probes.Trace // nil: nothing is recorded
	begun time.Time

	mu       sync.Mutex
	all      []probes.Step
	answered bool // a peer answered, be it that it knows nothing
}

func newSteps(t *probes.Trace) *steps { return &steps{trace: t, begun: time.Now()} }

// start records a request to p. The caller calls done with its result.
func (s *steps) start(p peer.ID, hedge bool) (done func(found int, err error)) {
	begun := time.Since(s.begun)
	return func(found int, err error) {
		outcome := status.Of(err).String()
		if errors.Is(err, context.Canceled) {
			outcome = status.Canceled.String()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answered = s.answered || unlessAbsent(err) == nil
		s.all = append(s.all, probes.Step{
			Peer: p, Hedge: hedge, Start: begun, Took: time.Since(s.begun) - begun, Outcome: outcome, Providers: found,
		})
	}
}

// final returns the error of a search that found nothing. A node without a DHT has searched
// everywhere when a peer has answered. All sources have ended.
func (s *steps) final(err error) error {
	if s.answered && status.Of(err) == status.NoBootstrap {
		return nil
	}
	return err
}

// finish puts the requests into the trace. All sources have ended.
func (s *steps) finish() {
	if s.trace == nil {
		return
	}
	s.trace.Steps = append(s.all, s.trace.Steps...)
	s.trace.Probes += len(s.all)
	if s.trace.End == "" {
		s.trace.End, s.trace.Took = "satisfied", time.Since(s.begun)
	}
}
