package names

import (
	"context"
	"strings"
	"time"

	"allium/protocols/name"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/names/dnslink"
	"allium/resolver/names/lookup"
	"allium/resolver/names/zones"
	"allium/resolver/trace"
)

// originDNS is the source of an answer that the DNS has a part in.
const originDNS record.Origin = "dns"

// domain returns what a domain stands for: an address, or what the name that it links to stands for. All
// links and records together are at most name.MaxSteps, and the DNS is asked for at most dnslink.Timeout. A
// short name in a link is a domain again, as petnames are the choice of this home directory alone. The
// errors are those of [dnslink.Resolver.Lookup] and of Resolve, bad_request for a loop, and hop_exceeded;
// they have the ID of the lookup.
func (r *Resolver) domain(ctx context.Context, domain, path string, opt lookup.Options) (Target, error) {
	lookup := r.ring.BeginUnder(trace.ParentOf(ctx), trace.Name, trace.Key{Name: domain}, 0)
	lookup.Call()
	t, err := r.follows(status.WithParent(ctx, lookup.ID()), domain, path, opt, lookup)
	lookup.End(err)
	if t.Name != nil {
		t.Name.LookupID = lookup.ID()
	}
	return t, lookup.Mark(err)
}

func (r *Resolver) follows(
	ctx context.Context, text, path string, opt lookup.Options, lookup *trace.Lookup,
) (Target, error) {
	t := Target{Origin: zones.Found{Origin: zones.FromDNS}}
	var err error
	t.Links, path, err = linksOf(ctx, r.dns, text, path, lookup)
	if err != nil {
		return t, err
	}
	return t, r.end(ctx, &t, t.Links[len(t.Links)-1], path, opt)
}

// linksOf returns what the DNS says of a domain and of those that it leads to, up to an address or a name, and the path
// below that. lookup may be nil.
func linksOf(
	ctx context.Context, dns DNS, text, path string, lookup *trace.Lookup,
) (all []dnslink.Link, below string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, dnslink.Timeout,
		status.Errorf(status.Timeout, "the DNS did not answer for %s within %s", text, dnslink.Timeout))
	defer cancel()
	for next := text; ; {
		begun := time.Now()
		link, err := dns.Lookup(ctx, next)
		if err != nil {
			lookup.Failed(trace.DNS, time.Since(begun), err)
			return all, path, err
		}
		lookup.Step(trace.Step{
			Source: trace.DNS, Verdict: trace.Hit, Took: time.Since(begun), Note: link.Domain + ": " + link.Text,
		})
		for _, before := range all {
			if before.Domain == link.Domain {
				return all, path, status.Errorf(status.BadRequest, "%s leads back to %s by the DNS", text, link.Domain)
			}
		}
		all = append(all, link)
		path = strings.Trim(link.Path+"/"+path, "/")
		switch {
		case link.Next == "":
			return all, path, nil
		case len(all) == name.MaxSteps:
			return all, path, tooManySteps(text)
		}
		next = link.Next
	}
}

// DomainKey returns the key that a domain stands for by its links in the DNS: an address or a name with the key of its
// zone, with the path below it. Nothing is remembered. The errors are those of [dnslink.Resolver.Lookup], bad_request
// for a loop, and hop_exceeded.
func DomainKey(ctx context.Context, dns DNS, domain string) (string, error) {
	all, path, err := linksOf(ctx, dns, domain, "", nil)
	if err != nil {
		return "", err
	}
	key := all[len(all)-1].Name.String()
	if root := all[len(all)-1].Root; !root.IsZero() {
		key = root.String()
	}
	if path != "" {
		key += "/" + path
	}
	return key, nil
}

// end sets what the last link of a domain stands for.
func (r *Resolver) end(ctx context.Context, t *Target, link dnslink.Link, path string, opt lookup.Options) error {
	if !link.Root.IsZero() {
		t.Name = &lookup.Answer{Source: originDNS}
		t.Root, t.Path = link.Root, path
		return nil
	}
	a, err := r.names.ResolveName(ctx, link.Name, opt)
	a.Source, a.TTL = originDNS, 0 // the DNS does not say for how long its part may be remembered
	t.Name = &a
	if err != nil {
		return err
	}
	if len(t.Links)+len(a.Chain) > name.MaxSteps {
		return tooManySteps(t.Links[0].Domain)
	}
	return t.follow(path)
}

func tooManySteps(domain string) error {
	return status.Errorf(status.HopExceeded, "%s leads through more than %d links and names", domain, name.MaxSteps)
}
