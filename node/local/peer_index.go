package local

import (
	"context"
	"time"

	"allium/gateway/api"
	"allium/gateway/policy"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/index"
	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver"
	"allium/resolver/names"
	"allium/resolver/names/lookup"
	"allium/resolver/providers"
)

// PeerIndex answers questions of peers about keys (OAP1 §10), with only what signed records prove.
// It implements index.Source.
type PeerIndex struct {
	Resolver *resolver.Resolver
	DHT      *dht.Service
	Filter   policy.Filter // of what peers are told
}

var _ index.Source = PeerIndex{}

// Object implements index.Source.
func (x PeerIndex) Object(ctx context.Context, root b3.Root, limit int, network bool) (index.Answer, error) {
	if network {
		a, err := x.Resolver.Resolve(ctx, root, resolver.Query{Limit: limit, PeersOnly: true})
		if err != nil {
			return index.Answer{}, err
		}
		return proved(resolved(&a), a.Providers)
	}
	return x.held(ctx, root, limit)
}

// held returns the providers of root that this node remembers or holds records of.
func (x PeerIndex) held(ctx context.Context, root b3.Root, limit int) (index.Answer, error) {
	a, ok, err := x.Resolver.Cached(0, root, resolver.Query{Limit: limit, PeersOnly: true})
	if ok && status.Of(err) == status.Denied {
		return index.Answer{}, err
	}
	if ok && err == nil {
		if got, err := proved(resolved(&a), a.Providers); err == nil {
			return got, nil
		}
	}
	held := x.DHT.HeldProviders(ctx, root)
	if len(held) == 0 {
		return index.Answer{}, index.ErrNone
	}
	held = held[:min(len(held), limit)]
	of := api.Resolved{
		Key: root.String(), Target: root, Source: string(record.OriginLocal), Confidence: api.Signed,
	}
	got := index.Answer{Resolved: of}
	for _, p := range held {
		got.Proofs = append(got.Proofs, *p.Proof)
		got.Resolved.Providers = append(got.Resolved.Providers, api.Provider{
			ID: p.ID.String(), Addrs: texts(p.Addrs), NotAfter: p.NotAfter, Source: string(record.OriginLocal),
			Confidence: api.Signed,
		})
	}
	return got, nil
}

// proved returns those providers of an answer that have a signed record. The error is not_found if
// there are none.
func proved(a api.Resolved, found []providers.Provider) (index.Answer, error) {
	all := a.Providers
	a.Providers = nil
	got := index.Answer{Resolved: a}
	for i := range found {
		if p := found[i].Provider; p.Proof != nil {
			got.Resolved.Providers = append(got.Resolved.Providers, all[i])
			got.Proofs = append(got.Proofs, *p.Proof)
		}
	}
	if len(got.Proofs) == 0 {
		return index.Answer{}, index.ErrNone
	}
	return got, nil
}

// Name implements index.Source. The providers are those that this node holds of what the name stands
// for, none of a denied object; their absence is no error.
func (x PeerIndex) Name(
	ctx context.Context, n name.Name, maxStale time.Duration, network bool,
) (got index.Answer, err error) {
	a := lookup.Answer{Name: n}
	if network {
		a, err = x.Resolver.ResolveName(ctx, n, lookup.Options{MaxStale: maxStale})
	} else {
		a, err = x.heldName(n, maxStale)
	}
	o := status.Of(err)
	if err != nil && (len(a.Chain) == 0 || o != status.Gone && o != status.Equivocation) {
		return index.Answer{}, err // the records of a withdrawal and of an equivocation are an answer
	}
	t := names.Target{Name: &a}
	root, path, _ := a.Value.Address()
	t.Root, t.Path = root, path
	of := api.Resolved{Confidence: api.Signed}
	if !root.IsZero() {
		held, err := x.held(ctx, root, providers.DefaultLimit)
		if err == nil && x.Filter.Object(root) == nil {
			got.Proofs, of.Providers = held.Proofs, held.Resolved.Providers
		}
	} else {
		of.Value = a.Value.String()
	}
	got.Resolved = withName(of, n.String(), t)
	for _, rec := range a.Chain {
		got.Names = append(got.Names, x.versions(rec, maxStale)...)
	}
	return got, nil
}

// versions returns the envelope of a record of a chain, and of the other one if the name
// equivocates.
func (x PeerIndex) versions(rec name.Signed, maxStale time.Duration) [][]byte {
	v, _ := name.Versions{}.Add(rec)
	v = v.Merge(x.DHT.HeldName(rec.Name, maxStale).Versions)
	var all [][]byte
	for _, r := range v.Records() {
		all = append(all, r.Envelope)
	}
	return all
}

// heldName follows a name through the records that this node remembers or holds for others. The
// error is not_found if the first is missing, and otherwise as lookup.Names.Resolve returns it; the
// answer beside it has the records up to there. A chain that ends early is an answer: the asker
// goes on from there.
func (x PeerIndex) heldName(n name.Name, maxStale time.Duration) (lookup.Answer, error) {
	a := lookup.Answer{Name: n, Source: record.OriginLocal}
	for at := n; ; {
		if err := x.Filter.Name(at); err != nil {
			return a, err
		}
		h := x.DHT.HeldName(at, maxStale)
		rec, ok := h.Versions.Current()
		if !ok && len(a.Chain) == 0 {
			return a, index.ErrNone
		}
		if !ok {
			return a, nil
		}
		if len(a.Chain) == 0 {
			a.NotAfter, a.TTL = rec.NotAfter, rec.TTL
		}
		a.Chain = append(a.Chain, rec)
		a.Age, a.TTL = max(a.Age, h.Age), min(a.TTL, h.TTL)
		a.Stale = a.Stale || h.Stale
		next, alias := rec.Value.Alias()
		switch {
		case h.Versions.Equivocates():
			return a, status.Errorf(status.Equivocation, "the owner of the zone of %s signed two values", at)
		case rec.Value.Kind() == name.Withdrawn:
			return a, status.Errorf(status.Gone, "%s was withdrawn by the owner of its zone", at)
		case !alias:
			a.Value = rec.Value
			return a, nil
		case len(a.Chain) == name.MaxSteps:
			return a, nil
		}
		at = next
	}
}
