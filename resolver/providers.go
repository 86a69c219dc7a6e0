package resolver

import (
	"context"
	"iter"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
)

// ProvidersOptions say how to look.
type ProvidersOptions struct {
	Limit int  // at most so many, up to 20; 0 means 20
	Fresh bool // ask the network even when the answer is remembered
}

// Providers yields who says it has the object: first, unless opt.Fresh, who
// announced it, at once, then whom the DHT finds, as they are found, for at most
// Config.Deadline. Each peer comes once. The sequence ends with an error when the search failed: a
// timeout, or the DHT's own. Nobody having the object is an empty sequence.
func (r *Resolver) Providers(ctx context.Context, root b3.Root, opt ProvidersOptions) iter.Seq2[Provider, error] {
	return func(yield func(Provider, error) bool) {
		work, l, done, err := r.begin(ctx)
		if err != nil {
			yield(Provider{}, err)
			return
		}
		defer done()
		limit := opt.Limit
		if limit <= 0 || limit > maxProviders {
			limit = maxProviders
		}
		seen := map[peer.ID]bool{}
		give := func(p Provider, from Origin) (more bool) {
			if seen[p.Addr.ID] {
				return true
			}
			seen[p.Addr.ID] = true
			p.Origin = from
			return yield(p, nil) && len(seen) < limit
		}
		if !opt.Fresh {
			for _, p := range r.hints(root) {
				if !give(p, OriginGossip) {
					return
				}
			}
		}
		s := r.lookups.join(l, root, opt.Fresh)
		defer r.lookups.leave(s)
		for i := 0; ; i++ {
			p, ok, err := s.at(work, i)
			if err != nil {
				yield(Provider{}, why(work, err))
				return
			}
			if !ok || !give(p, OriginDHT) {
				return
			}
		}
	}
}
