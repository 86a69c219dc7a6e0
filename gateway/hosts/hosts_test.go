package hosts

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"allium/gateway/api"
	"allium/gateway/site"
	"allium/protocols/b3"
	"allium/protocols/status"
)

var root = b3.Sum([]byte("site"))

// finder returns a Finder of a configuration that must be valid.
func finder(t testing.TB, cfg Config, dns DNS) *Finder {
	t.Helper()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	f, err := New(cfg, dns, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFind: hosts of every odd kind are of one site, or the node's own.
func TestFind(t *testing.T) {
	t.Parallel()
	f := finder(t, Config{
		DNSLink: true, SubdomainHosts: []string{"GW.example.org.", "b3.other.example"},
		Sites: map[string]Site{
			"a": {Domain: "www.example.com", Aliases: []string{"Bücher.example"}, Key: root.String() + "/docs/"},
			"b": {Domain: "intranet", Key: "blog.alice"},
		},
	}, nil)
	cid := root.CID().String()
	const own, gateway, bad = "own", "gateway", "bad"
	for host, want := range map[string]string{
		"": own, ".": own, ":": own, ":80": own, "..": own, " ": own, "a b.example": own, "127.0.0.1": own,
		"127.0.0.1:8080": own, "[::1]:80": own, "[::1]": own, "::1": own, "300.1.2.3": own, "1.2": own, "example": own,
		"localhost": gateway, "LocalHost.:0": gateway, "localhost:": gateway, "localhost:99999": gateway,
		"localhost:80x": own, "gw.example.org:443": gateway, "x.gw.example.org": own, "x.localhost": own,
		"www.example.com": "site", "WWW.Example.COM.:0": "site", "xn--bcher-kva.example": "site", "intranet:1": "site",
		"www.example.com.evil.example": "dns", "example.com": "dns", "a_b.example": "dns", "-.example": "dns",
		"xn--a.example": "dns", strings.Repeat("a", 63) + ".example": "dns", strings.Repeat("a", 64) + ".example": own,
		strings.Repeat("a.", 130) + "example": own, "a..example": own, ".example.com": own, "bücher.example": own,
		"*.example.com": own, "a%2eexample.com": own, "user@example.com": own, "example.com/": own, "a\x00.example": own,
		cid + ".b3.localhost": "root", strings.ToUpper(cid) + ".B3.LOCALHOST:8080": "root",
		cid + ".b3.gw.example.org": "root", cid + ".b3.b3.other.example": "root", cid + ".b3.evil.example": "dns",
		"x.b3.localhost": bad, "b3.localhost": bad, "n3.gw.example.org": bad, "-.n3.localhost": bad,
		strings.Repeat("a", 64) + ".n3.localhost": bad, "b3.other.example": gateway, "docs-alice.n3.localhost": "name",
		"notlocalhost": own, "xlocalhost.b3": "dns",
	} {
		found, err := f.Find(host)
		got := own
		switch s := found.Site; {
		case err != nil:
			if got = bad; status.Of(err) != status.BadAddress || s == nil {
				t.Errorf("%q: %+v %v", host, found, err)
			}
		case found.Gateway:
			got = gateway
		case s == nil:
		case s.Domain != "":
			got = "dns"
		case s.Moves:
			got = "site"
		case !s.Key.Root.IsZero():
			got = "root"
		default:
			got = "name"
		}
		if got != want || found.Gateway && found.Site != nil {
			t.Errorf("%q is %s (%+v), want %s", host, got, found.Site, want)
		}
	}
	if s, _ := f.Find("www.example.com"); !slices.Equal(s.Site.Path, []string{"docs"}) || s.Site.Key.Root != root {
		t.Errorf("%+v", s.Site)
	}
}

// TestValidate: a configuration that would serve a domain twice, or none, is refused with its key.
func TestValidate(t *testing.T) {
	t.Parallel()
	key := root.String()
	many := map[string]Site{}
	for i := range MaxSites + 1 {
		many[fmt.Sprintf("s%d", i)] = Site{Domain: fmt.Sprintf("d%d.example", i), Key: key}
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{SubdomainHosts: []string{"https://a.example"}}, "subdomain_hosts"},
		{Config{SubdomainHosts: []string{"*.example"}}, "subdomain_hosts"},
		{Config{SubdomainHosts: []string{"127.0.0.1"}}, "subdomain_hosts"},
		{Config{SubdomainHosts: []string{""}}, "subdomain"},
		{Config{SubdomainHosts: slices.Repeat([]string{"a.example"}, 65)}, "subdomain_hosts has 65"},
		{Config{Sites: many}, "gateway.sites has"},
		{Config{Sites: map[string]Site{"A b": {Domain: "a.example", Key: key}}}, "gateway.sites.A b"},
		{Config{Sites: map[string]Site{"a": {Key: key}}}, "gateway.sites.a.domain"},
		{Config{Sites: map[string]Site{"a": {Domain: "a.example:80", Key: key}}}, "a.domain"},
		{Config{Sites: map[string]Site{"a": {Domain: "[::1]", Key: key}}}, "a.domain"},
		{Config{Sites: map[string]Site{"a": {Domain: "a.example"}}}, "a.key"},
		{Config{Sites: map[string]Site{"a": {Domain: "a.example", Key: "word"}}}, "a.key"},
		{Config{Sites: map[string]Site{"a": {Domain: "a.example", Key: key[:20]}}}, "a.key"},
		{Config{Sites: map[string]Site{"a": {Domain: "a.example", Key: key + "/../x"}}}, "a.key"},
		{Config{Sites: map[string]Site{"a": {Domain: "a.example", Aliases: []string{"A.example."}, Key: key}}}, "another"},
		{Config{Sites: map[string]Site{"a": {Domain: "localhost", Key: key}}}, "a host of the gateway"},
		{Config{Sites: map[string]Site{"a": {Domain: "x.b3.localhost", Key: key}}}, "a host of the gateway"},
		{Config{Sites: map[string]Site{"a": {
			Domain: "a.example", Aliases: slices.Repeat([]string{"b"}, 65), Key: key,
		}}}, "aliases has 65"},
	} {
		if err := c.cfg.Validate(); status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// fakeDNS answers with what is set, and counts.
type fakeDNS struct {
	mu    sync.Mutex
	key   string
	err   error
	takes time.Duration
	asked int
}

func (d *fakeDNS) DomainKey(ctx context.Context, _ string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	select {
	case <-time.After(d.takes):
		return d.key, d.err
	case <-ctx.Done():
		return "", status.Errorf(status.Timeout, "too slow")
	}
}

// free admits every lookup.
func free(context.Context) (func(), error) { return func() {}, nil }

// TestLinked: what the DNS says is remembered for a while, a failure leaves an older link in place, and requests for
// one domain wait for one lookup.
func TestLinked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dns := &fakeDNS{key: root.String() + "/a", takes: time.Millisecond}
		f := finder(t, Config{DNSLink: true}, dns)
		expect := func(what string, asked int, want error, ok bool) {
			t.Helper()
			s, err := f.Linked(t.Context(), "a.example", free)
			if (s != nil) != ok || want != nil && !errors.Is(err, want) || want == nil && ok != (err == nil) ||
				dns.asked != asked {
				t.Errorf("%s: %+v %v, asked %d times, want %d", what, s, err, dns.asked, asked)
			}
		}
		if f.Linking("a.example") {
			t.Error("it links before it was asked")
		}
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() { _, _ = f.Linked(t.Context(), "a.example", free) })
		}
		all.Wait()
		expect("at once", 1, nil, true)
		time.Sleep(linkFor)
		dns.err = status.Errorf(status.Timeout, "down")
		expect("while it fails", 2, nil, true)
		expect("soon after", 2, nil, true)
		time.Sleep(staleFor + linkFor)
		expect("for long", 3, nil, false)
		time.Sleep(failureFor)
		dns.err = status.Errorf(status.NotFound, "none")
		expect("without a link", 4, ErrNoLink, false)
		expect("and again", 4, ErrNoLink, false)
		if f.Linking("a.example") {
			t.Error("it links still")
		}
		time.Sleep(linkFor)
		dns.err, dns.key = nil, "hello"
		expect("a lie", 5, nil, false)
		time.Sleep(linkFor)
		dns.err = status.Errorf(status.BadRequest, "it leads back")
		if _, err := f.Linked(t.Context(), "a.example", free); status.Of(err) != status.Upstream {
			t.Errorf("a loop: %v", err)
		}
		time.Sleep(failureFor)
		dns.takes = time.Hour
		expect("in silence", 7, nil, false)
		busy := status.Errorf(status.Busy, "busy")
		refuse := func(context.Context) (func(), error) { return nil, busy }
		if _, err := f.Linked(t.Context(), "b.example", refuse); !errors.Is(err, busy) {
			t.Errorf("not admitted: %v", err)
		}
		if _, err := f.Linked(t.Context(), "b.example", free); status.Of(err) != status.Timeout {
			t.Errorf("a refusal is remembered: %v", err)
		}
	})
}

// TestLinkedAfterRefusal: what refuses the request that would ask, such as that its client went away, is not the
// answer to the others that wait.
func TestLinkedAfterRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dns := &fakeDNS{key: root.String()}
		f := finder(t, Config{DNSLink: true}, dns)
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			_, err := f.Linked(ctx, "a.example", func(ctx context.Context) (func(), error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who went away: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			all.Go(func() {
				if s, err := f.Linked(t.Context(), "a.example", free); s == nil || err != nil {
					t.Errorf("who waited: %v", err)
				}
			})
		}
		synctest.Wait()
		leave()
		all.Wait()
		if dns.asked != 1 {
			t.Errorf("asked %d times", dns.asked)
		}
	})
}

// TestManyDomains: what is remembered has a bound.
func TestManyDomains(t *testing.T) {
	t.Parallel()
	f := finder(t, Config{DNSLink: true}, &fakeDNS{err: status.Errorf(status.NotFound, "none")})
	for i := range maxDomains + 10 {
		if _, err := f.Linked(t.Context(), fmt.Sprintf("d%d.example", i), free); !errors.Is(err, ErrNoLink) {
			t.Fatal(err)
		}
	}
	if n := f.domains.lru.Len(); n != maxDomains || len(f.domains.asked) != 0 {
		t.Errorf("%d domains, %d asked", n, len(f.domains.asked))
	}
	for i := range maxRemembered + 10 {
		k := site.OfName(fmt.Sprintf("ü%d.example", i))
		f.HostOf(k, "localhost")
		if name, ok := f.NameOf(site.Key{Digest: k.Digest}); !ok || name != k.Name {
			t.Fatalf("%s: %q %t", k.Name, name, ok)
		}
	}
	if n := f.names.Len(); n != maxRemembered {
		t.Errorf("%d names", n)
	}
}

// TestSites: the URL of a website has the port of a gateway that others reach, and none behind a proxy.
func TestSites(t *testing.T) {
	t.Parallel()
	f := finder(t, Config{Sites: map[string]Site{
		"a": {Domain: "www.example.org", Key: root.String()}, "part": {Domain: "part.example", Key: root.String() + "/a"},
	}}, nil)
	for base, want := range map[string]string{
		"http://127.0.0.1:8080": "http://www.example.org/", "http://[::1]:8080": "http://www.example.org/",
		"http://localhost:8080": "http://www.example.org/", "http://192.0.2.1:8080": "http://www.example.org:8080/",
		"http://192.0.2.1:80": "http://www.example.org/", "https://gw.example:443": "https://www.example.org/",
		"https://gw.example": "https://www.example.org/", "https://gw.example:8443": "https://www.example.org:8443/",
	} {
		got := f.Sites(base)
		if len(got) != 1 || got[0].URL != want || got[0].Key != root.String() {
			t.Errorf("%s: %+v, want %s", base, got, want)
		}
	}
	if got := f.Sites(""); got != nil {
		t.Errorf("without a gateway: %v", got)
	}
}

// manySites is a configuration with n sites.
func manySites(n int) Config {
	c := Config{Sites: map[string]Site{}}
	for i := range n {
		c.Sites[fmt.Sprintf("site%d", i)] = Site{
			Domain: fmt.Sprintf("www.site-%d.example.org", i), Aliases: []string{fmt.Sprintf("site-%d.example.org", i)},
			Key: fmt.Sprintf("blog.zone%d", i),
		}
	}
	return c
}

// TestManySites: finding a site among 10,000 allocates nothing, and nothing is remembered of what is not there.
func TestManySites(t *testing.T) { // not parallel: it counts allocations
	f := finder(t, manySites(10_000), nil)
	for _, host := range []string{"www.site-9999.example.org:443", "unknown.example.org", "localhost:8080", "10.0.0.1"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = f.Find(host) }); n > 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

// BenchmarkFind compares 10 sites with 10,000.
func BenchmarkFind(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		f := finder(b, manySites(n), nil)
		for name, host := range maps.All(map[string]string{"site": "www.site-9.example.org:443", "own": "10.0.0.1:8080"}) {
			b.Run(fmt.Sprintf("%s of %d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					_, _ = f.Find(host)
				}
			})
		}
	}
}

// FuzzFind: no host is both a site and the gateway, and none panics.
func FuzzFind(f *testing.F) {
	find := finder(f, Config{DNSLink: true, SubdomainHosts: []string{"gw.example"}}, nil)
	for _, host := range []string{"localhost:8080", "x.b3.gw.example", "a-b.n3.localhost.", "[::1]:80", "a.example.org"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		found, err := find.Find(host)
		if found.Gateway && found.Site != nil || err != nil && status.Of(err) != status.BadAddress {
			t.Errorf("%q: %+v %v", host, found, err)
		}
		if found.Site != nil && strings.ContainsAny(found.Site.Domain, "\r\n\x00 /:") {
			t.Errorf("%q: %q", host, found.Site.Domain)
		}
	})
}

// TestNamed: a domain has a certificate on demand if the configuration names it, and not if anybody could make it up.
func TestNamed(t *testing.T) {
	t.Parallel()
	f := finder(t, Config{
		DNSLink: true, SubdomainHosts: []string{"gw.example.org"},
		Sites: map[string]Site{"a": {Domain: "www.example.com", Aliases: []string{"example.com"}, Key: root.String()}},
	}, &fakeDNS{key: root.String()})
	for domain, want := range map[string]bool{
		"www.example.com": true, "example.com": true, "linked.example": false, "gw.example.org": false,
		root.CID().String() + ".b3.gw.example.org": false, "x.gw.example.org": false, "localhost": false, "": false,
	} {
		if got := f.Named(t.Context(), domain); got != want {
			t.Errorf("%q is named: %t", domain, got)
		}
	}
	f.Reconfigure(Config{})
	if f.Named(t.Context(), "www.example.com") {
		t.Error("a site of the configuration before is named")
	}
}

// TestWholeSites: a site that is all of an address or a name has its domain as a link, with the port of https alone.
func TestWholeSites(t *testing.T) {
	t.Parallel()
	const name = "blog.k51qzi5uqu5dg7hrq47f1jnztk3le465qvnyevvc27imnye84lj3c3rti6juo7"
	f := finder(t, Config{Sites: map[string]Site{
		"a": {Domain: "WWW.example.org", Aliases: []string{"example.org"}, Key: root.String()},
		"b": {Domain: "bücher.example", Key: root.CID().String() + "/"},
		"c": {Domain: "c.example", Key: strings.ToUpper(name[:1]) + name[1:]},
		"d": {Domain: "d.example", Key: root.String() + "/docs"}, "e": {Domain: "e.example", Key: name + "/docs"},
	}}, nil)
	for base, want := range map[string]string{
		"https://gw.example.org":    "https://%s/",
		"https://gw.example.org:44": "https://%s:44/",
		"https://192.0.2.1:443":     "https://%s/",
		"http://127.0.0.1:8080":     "http://%s/",
	} {
		all := []api.Site{
			{Key: root.String(), URL: "www.example.org"}, {Key: root.String(), URL: "xn--bcher-kva.example"},
			{Key: name, URL: "c.example"},
		}
		for i := range all {
			all[i].URL = fmt.Sprintf(want, all[i].URL)
		}
		if got := f.Sites(base); !slices.Equal(got, all) {
			t.Errorf("%s: %v, want %v", base, got, all)
		}
	}
	if got := f.Sites(""); got != nil {
		t.Errorf("without a gateway: %v", got)
	}
	f.Reconfigure(Config{})
	if got := f.Sites("https://gw.example.org"); len(got) > 0 {
		t.Errorf("of the configuration before: %v", got)
	}
}

// TestOrigins: localhost counts for a gateway of this machine without a certificate, and ports stay.
func TestOrigins(t *testing.T) {
	t.Parallel()
	f := finder(t, Config{SubdomainHosts: []string{"gw.example.org"}}, nil)
	for base, want := range map[string][]string{
		"http://127.0.0.1:8080":      {"http://gw.example.org:8080", "http://localhost:8080"},
		"http://[::1]:8080":          {"http://gw.example.org:8080", "http://localhost:8080"},
		"http://192.0.2.1":           {"http://gw.example.org"},
		"https://gw.example.org":     {"https://gw.example.org"},
		"https://gw.example.org:444": {"https://gw.example.org:444"},
		"":                           nil,
	} {
		if got := f.Origins(base); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", base, got, want)
		}
	}
}
