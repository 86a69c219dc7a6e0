package local

import (
	"context"
	"time"

	"allium/gateway/content"
	"allium/protocols/status"
	"allium/resolver/names"
	"allium/resolver/names/lookup"
)

// Names resolves names with the knowledge of a node. It implements content.Names of the gateway.
type Names struct {
	Keys *names.Resolver
	DNS  names.DNS // asked for the domains of hosts
}

// DomainKey implements content.Names.
func (n Names) DomainKey(ctx context.Context, domain string) (string, error) {
	return names.DomainKey(ctx, n.DNS, domain)
}

// CachedName implements content.Names.
func (n Names) CachedName(text string, maxStale time.Duration) (content.Named, bool) {
	t, ok := n.Keys.Cached(text, maxStale)
	if !ok {
		return content.Named{}, false
	}
	return named(t), true
}

// ResolveName implements content.Names.
func (n Names) ResolveName(ctx context.Context, text string, maxStale time.Duration) (content.Named, error) {
	if !names.IsName(text) {
		return content.Named{}, status.Errorf(status.BadAddress, "%.80q is not a name: write LABEL.ZONE", text)
	}
	t, err := n.Keys.Resolve(ctx, text, lookup.Options{MaxStale: maxStale})
	return named(t), err
}

// named returns what a name stands for as the gateway has it.
func named(t names.Target) content.Named {
	n := content.Named{Root: t.Root, Path: t.Path}
	if t.Name != nil {
		n.TTL, n.LookupID = t.Name.TTL, t.Name.LookupID
		n.Stale, n.Age = t.Name.Stale, t.Name.Age
		if len(t.Links) == 0 { // the DNS does not say since when
			for _, rec := range t.Name.Chain {
				if at := time.UnixMilli(int64(rec.Seq)); at.After(n.Signed) { //nolint:gosec // checked to be a time
					n.Signed = at
				}
			}
		}
	}
	return n
}
