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
	dns, cancel := context.WithTimeoutCause(ctx, dnslink.Timeout,
		status.Errorf(status.Timeout, "the DNS did not answer for %s within %s", text, dnslink.Timeout))
	defer cancel()
	for next := text; ; {
		begun := time.Now()
		link, err := r.dns.Lookup(dns, next)
		if err != nil {
			lookup.Failed(trace.DNS, time.Since(begun), err)
			return t, err
		}
		lookup.Step(trace.Step{
			Source: trace.DNS, Verdict: trace.Hit, Took: time.Since(begun), Note: link.Domain + ": " + link.Text,
		})
		for _, before := range t.Links {
			if before.Domain == link.Domain {
				return t, status.Errorf(status.BadRequest, "%s leads back to %s by the DNS", text, link.Domain)
			}
		}
		t.Links = append(t.Links, link)
		path = strings.Trim(link.Path+"/"+path, "/")
		switch {
		case link.Next == "":
			return t, r.end(ctx, &t, link, path, opt)
		case len(t.Links) == name.MaxSteps:
			return t, tooManySteps(text)
		}
		next = link.Next
	}
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
