package resolver

import (
	"context"
	"iter"

	"allium/protocols/b3"
)

// ProvidersOptions say how to look.
type ProvidersOptions struct {
	Limit int  // at most so many, up to 20; 0 means 20
	Fresh bool // ask the network even when the answer is remembered
}

// Providers yields who says it has the object, as they are found, for at most
// Config.Deadline. The sequence ends with an error when the search failed: a
// timeout, or the DHT's own. Nobody having the object is an empty sequence.
func (r *Resolver) Providers(ctx context.Context, root b3.Root, opt ProvidersOptions) iter.Seq2[Provider, error] {
	return func(yield func(Provider, error) bool) {
		work, l, done, err := r.begin(ctx)
		if err != nil {
			yield(Provider{}, err)
			return
		}
		defer done()
		s := r.lookups.join(l, root, opt.Fresh)
		defer r.lookups.leave(s)
		limit := opt.Limit
		if limit <= 0 || limit > maxProviders {
			limit = maxProviders
		}
		for i := range limit {
			p, ok, err := s.at(work, i)
			if err != nil {
				yield(Provider{}, why(work, err))
				return
			}
			if !ok || !yield(p, nil) {
				return
			}
		}
	}
}
