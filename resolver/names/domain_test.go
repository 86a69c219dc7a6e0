package names

import (
	"context"
	"strings"
	"testing"
	"time"

	"allium/protocols/name"
	"allium/protocols/status"
	"allium/resolver/names/dnslink"
	"allium/resolver/names/lookup"
	"allium/resolver/names/zones"
	"allium/resolver/trace"
)

// links has the TXT record of domains, and counts the questions.
type links struct {
	txt   map[string]string
	asked int
}

func (l *links) LookupTXT(_ context.Context, domain string) ([]string, error) {
	l.asked++
	return []string{"dnslink=" + l.txt[domain]}, nil
}

func (l *links) Lookup(ctx context.Context, domain string) (dnslink.Link, error) {
	return dnslink.New(l, nil).Lookup(ctx, domain)
}

// TestDomain: the DNS is asked only for what no petname has, and its links and the records behind them are
// bounded together.
func TestDomain(t *testing.T) {
	t.Parallel()
	zone := name.Zone{7}
	z, err := zones.Open(t.TempDir(), zones.Config{}, false)
	if err != nil {
		t.Fatal(err)
	}
	alice, err := name.ParseLabel("alice")
	if err != nil {
		t.Fatal(err)
	}
	if err := z.SetPetname(t.Context(), alice, zone); err != nil {
		t.Fatal(err)
	}
	short, err := z.ShortNames()
	if err != nil {
		t.Fatal(err)
	}
	const root = "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
	dns := &links{txt: map[string]string{
		"_dnslink.r3---sn-x.org.": "/b3/" + root, "_dnslink.a_b.example.": "/n/r3---sn-x.org",
		"_dnslink.direct.org.": "/b3/" + root + "/site", "_dnslink.named.org.": "/n/blog." + zone.String() + "/sub",
		"_dnslink.one.org.": "/n/two.org/1", "_dnslink.two.org.": "/n/three.org/2",
		"_dnslink.three.org.": "/n/direct.org/3",
		"_dnslink.zero.org.":  "/n/one.org", "_dnslink.loop.org.": "/n/back.org", "_dnslink.back.org.": "/n/loop.org",
		"_dnslink.short.org.": "/n/blog.alice", "_dnslink.deep.org.": "/n/a.named.org",
		"_dnslink.a.named.org.": "/n/b.named.org",
		"_dnslink.b.named.org.": "/n/c.named.org", "_dnslink.c.named.org.": "/n/blog." + zone.String(),
	}}
	w := records{"blog": root}
	for _, c := range []struct {
		key   string
		path  string
		links int
		asked bool
		err   status.Outcome
	}{
		{"direct.org/img", "site/img", 1, true, status.OK},
		{"named.org/x", "sub/x", 1, true, status.OK},
		{"one.org/x", "site/3/2/1/x", 4, true, status.OK},
		{"zero.org", "", 4, true, status.HopExceeded},
		{"deep.org", "", 4, true, status.HopExceeded},
		{"loop.org", "", 2, true, status.BadRequest},
		{"short.org", "", 1, true, status.NotFound}, // a petname of this home is no name for others
		{"nothing.org", "", 0, true, status.NotFound},
		{"r3---sn-x.org", "", 1, true, status.OK},
		{"a_b.example/x", "x", 2, true, status.OK},
		{"a_b.alice", "", 0, false, status.BadAddress}, // a petname's zone has no such label
		{"a_b." + zone.String(), "", 0, false, status.BadAddress},
		{"blog.alice", "", 0, false, status.OK},
		{"blog." + zone.String(), "", 0, false, status.OK},
		{"other." + zone.String(), "", 0, false, status.NotFound},
		{"blog.k51qzi5uqu5d", "", 0, false, status.NotFound}, // a key that is not whole
	} {
		dns.asked = 0
		ring := trace.New(trace.Deps{})
		got, err := New(fixed{short}, w, dns, ring, time.Now).Resolve(t.Context(), c.key, lookup.Options{})
		if status.Of(err) != c.err || len(got.Links) != c.links || (dns.asked > 0) != c.asked {
			t.Errorf("%s: %d links, %d questions, %v", c.key, len(got.Links), dns.asked, err)
		}
		if err == nil && (got.Root.String() != root || got.Path != c.path ||
			c.asked != (got.Name.Source == originDNS) || c.asked && got.Name.TTL != 0) {
			t.Errorf("%s: %s/%s from %s for %s", c.key, got.Root, got.Path, got.Name.Source, got.Name.TTL)
		}
		if c.asked {
			isRecorded(t, ring, c.key, got, err)
		}
		if _, err := New(fixed{short}, w, nil, nil, time.Now).Resolve(t.Context(), c.key, lookup.Options{}); c.asked &&
			status.Of(err) != status.NotFound && status.Of(err) != status.BadAddress {
			t.Errorf("%s without the DNS: %v", c.key, err)
		}
	}
}

// isRecorded requires a record of what the DNS said, by the ID that the answer or the error has.
func isRecorded(t *testing.T, ring *trace.Ring, key string, got Target, err error) {
	t.Helper()
	id := status.LookupOf(err)
	if err == nil {
		id = got.Name.LookupID.String()
	}
	lookup, _ := status.ParseLookupID(id)
	rec, ok := ring.Get(lookup)
	said := 0
	for _, s := range rec.Steps {
		if s.Source == trace.DNS && s.Verdict == trace.Hit {
			said++
		}
	}
	domain, _, _ := strings.Cut(key, "/")
	if !ok || rec.Key.Name != domain || rec.Outcome != status.Of(err) || said < len(got.Links) {
		t.Errorf("%s: lookup %q has the record %+v", key, id, rec)
	}
}

// TestDomainKey: the key of a domain has the paths of all links on the way, and what leads nowhere is an error.
func TestDomainKey(t *testing.T) {
	t.Parallel()
	const root = "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
	blog := "blog." + name.Zone{7}.String()
	dns := &links{txt: map[string]string{
		"_dnslink.direct.org.": "/b3/" + root, "_dnslink.one.org.": "/n/direct.org/a", "_dnslink.two.org.": "/n/one.org/b/c",
		"_dnslink.named.org.": "/n/" + blog + "/x", "_dnslink.loop.org.": "/n/back.org", "_dnslink.back.org.": "/n/loop.org",
		"_dnslink.three.org.": "/n/two.org", "_dnslink.four.org.": "/n/three.org",
		"_dnslink.huge.org.": "/b3/" + root + "/" + strings.Repeat("x", 64<<10), "_dnslink.up.org.": "/b3/" + root + "/../x",
	}}
	for domain, want := range map[string]struct {
		key string
		err status.Outcome
	}{
		"direct.org": {root, status.OK}, "Two.org.": {root + "/a/b/c", status.OK}, "named.org": {blog + "/x", status.OK},
		"three.org": {root + "/a/b/c", status.OK}, "four.org": {"", status.HopExceeded},
		"loop.org": {"", status.BadRequest}, "none.org": {"", status.NotFound}, "huge.org": {"", status.BadRequest},
		"up.org": {"", status.BadRequest}, "127.0.0.1": {"", status.BadAddress},
	} {
		if key, err := DomainKey(t.Context(), dns, domain); key != want.key || status.Of(err) != want.err {
			t.Errorf("%s: %q %v, want %q %s", domain, key, err, want.key, want.err)
		}
	}
}
