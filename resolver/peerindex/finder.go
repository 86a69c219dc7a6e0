package peerindex

import (
	"context"
	"iter"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/dht/probes"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/names/lookup"
	"allium/resolver/providers"
)

// Index asks a peer what it knows, and returns what it has proved: the client of protocols/index.
type Index interface {
	Providers(ctx context.Context, p peer.ID, root b3.Root, limit int) ([]record.Provider, error)
	Name(ctx context.Context, p peer.ID, n name.Name) (name.Versions, error)
}

// Config says whom to ask.
type Config struct {
	Peers      []peer.AddrInfo      // in the order in which they are asked; at least one
	HedgeAfter func() time.Duration // after which a silent source is joined by the next
}

// Deps holds the dependencies of a [Finder]. All are required.
type Deps struct {
	Index     Index
	Dialer    providers.Dialer
	Providers providers.Finder // asked after the peers
	Names     lookup.Finder    // asked after the peers; may be nil, as FindName is then not called
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
	_ lookup.Finder    = (*Finder)(nil)
)

// FindProviders implements [providers.Finder]. Each provider is yielded once.
func (f *Finder) FindProviders(
	ctx context.Context, root b3.Root, opt providers.FindOptions,
) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		asked := providers.NewRequests(opt.Trace)
		sources := make([]source[record.Provider], 0, len(f.cfg.Peers)+1)
		for i, p := range f.cfg.Peers {
			sources = append(sources, func(ctx context.Context, emit func(record.Provider) bool) error {
				done := asked.Start(p.ID, i > 0)
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
		err := race(ctx, f.cfg.HedgeAfter(), opt.Fresh, sources, func(got record.Provider) bool {
			if _, again := seen[got.ID]; again {
				return true
			}
			seen[got.ID] = struct{}{}
			left--
			return yield(got, nil) && left != 0
		})
		asked.Finish()
		if err = final(asked, err); err != nil {
			yield(record.Provider{}, err)
		}
	}
}

// FindName implements [lookup.Finder].
func (f *Finder) FindName(
	ctx context.Context, n name.Name, fresh bool, t *probes.Trace,
) (name.Versions, record.Origin, error) {
	type answer struct {
		v    name.Versions
		from record.Origin
	}
	var atEnd answer // of the DHT, which returns what it has when ctx ends
	asked := providers.NewRequests(t)
	sources := make([]source[answer], 0, len(f.cfg.Peers)+1)
	for i, p := range f.cfg.Peers {
		sources = append(sources, func(ctx context.Context, emit func(answer) bool) error {
			done := asked.Start(p.ID, i > 0)
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
	err := race(ctx, f.cfg.HedgeAfter(), fresh, sources, func(a answer) bool {
		if a.v.Seq() > best.v.Seq() {
			best.from = a.from
		}
		best.v = best.v.Merge(a.v)
		return fresh
	})
	asked.Finish()
	if atEnd.v.Seq() > best.v.Seq() && (fresh || best.v.Seq() == 0) {
		best = atEnd
	}
	if best.v.Seq() > 0 {
		return best.v, best.from, nil
	}
	return best.v, best.from, final(asked, err)
}

// unlessAbsent returns nil if err says that a peer knows nothing, which is no failure of the search.
func unlessAbsent(err error) error {
	if status.Of(err) == status.NotFound {
		return nil
	}
	return err
}

// final returns the error of a search that found nothing. A node without a DHT has searched
// everywhere when a peer has answered. All sources have ended.
func final(asked *providers.Requests, err error) error {
	if asked.Answered() && status.Of(err) == status.NoBootstrap {
		return nil
	}
	return err
}
