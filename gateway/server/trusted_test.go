package server

import (
	"net/http/httptest"
	"strings"
	"testing"

	"allium/gateway/server/conns"
)

// TestOrigin: who asks, by what trusted proxies say and by nothing else.
func TestOrigin(t *testing.T) {
	t.Parallel()
	trusted, err := parseProxies([]string{"10.0.0.0/8", "2001:db8:f::/48", "192.0.2.99"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peer    string
		headers []string
		want    string
	}{
		"a stranger is not believed": {
			"203.0.113.7:1",
			[]string{"X-Forwarded-For", "198.51.100.1", "Forwarded", "for=198.51.100.1", "X-Forwarded-Proto", "https"},
			"203.0.113.7/32",
		},
		"a proxy is": {"10.1.1.1:1", []string{
			"X-Forwarded-For", "198.51.100.1", "X-Forwarded-Proto", "https",
		}, "198.51.100.1/32"},
		"one by its address":    {"192.0.2.99:1", []string{"X-Forwarded-For", "198.51.100.1"}, "198.51.100.1/32"},
		"one that says nothing": {"10.1.1.1:1", nil, "10.1.1.1/32"},
		"what the client added": {"10.1.1.1:1", []string{
			"X-Forwarded-For", "192.0.2.1, 198.51.100.1",
		}, "198.51.100.1/32"},
		"over two headers": {"10.1.1.1:1", []string{
			"X-Forwarded-For", "192.0.2.1", "X-Forwarded-For", "198.51.100.1,10.2.2.2",
		}, "198.51.100.1/32"},
		"over trusted hops": {"10.1.1.1:1", []string{
			"X-Forwarded-For", "198.51.100.1, 10.9.9.9, 10.2.2.2",
		}, "198.51.100.1/32"},
		"trusted to the end":    {"10.1.1.1:1", []string{"X-Forwarded-For", "10.9.9.9, 10.2.2.2"}, "10.9.9.9/32"},
		"nonsense":              {"10.1.1.1:1", []string{"X-Forwarded-For", "unknown"}, "10.1.1.1/32"},
		"nonsense behind a hop": {"10.1.1.1:1", []string{"X-Forwarded-For", "_x, 10.2.2.2"}, "10.2.2.2/32"},
		"endless": {"10.1.1.1:1", []string{
			"X-Forwarded-For", "198.51.100.1" + strings.Repeat(", 10.2.2.2", 40),
		}, "10.2.2.2/32"},
		"with a port": {"10.1.1.1:1", []string{"X-Forwarded-For", "198.51.100.1:4711"}, "198.51.100.1/32"},
		"IPv6": {"[2001:db8:f::1]:1", []string{
			"X-Forwarded-For", "2001:db8:1:2:3::4",
		}, "2001:db8:1:2::/64"},
		"Forwarded": {"10.1.1.1:1", []string{"Forwarded",
			`for=192.0.2.1;proto=http, For="[2001:db8:1:2::4]:80" ; PROTO=https`}, "2001:db8:1:2::/64"},
		"Forwarded, hidden": {"10.1.1.1:1", []string{"Forwarded", "for=_hidden;proto=https"}, "10.1.1.1/32"},
		"both agree": {"10.1.1.1:1", []string{
			"X-Forwarded-For", "198.51.100.1", "Forwarded", "for=198.51.100.1;proto=https",
			"X-Forwarded-Proto", "https",
		}, "198.51.100.1/32"},
		"one came through unseen": {"10.1.1.1:1", []string{
			"X-Forwarded-For", "198.51.100.1", "Forwarded", "for=192.0.2.1",
		}, "10.1.1.1/32"},
		"mapped": {"[::ffff:10.1.1.1]:1", []string{
			"X-Forwarded-For", "::ffff:198.51.100.1",
		}, "198.51.100.1/32"},
		"a Unix socket": {"@", []string{"X-Forwarded-For", "198.51.100.1"}, "invalid Prefix"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = c.peer
		for i := 0; i < len(c.headers); i += 2 {
			r.Header.Add(c.headers[i], c.headers[i+1])
		}
		if o := trusted.originOf(r); o.Group.String() != c.want {
			t.Errorf("%s: %s, want %s", name, o.Group, c.want)
		}
		if o := proxies(nil).originOf(r); o.Group != conns.GroupOf(conns.AddrOf(c.peer)) {
			t.Errorf("%s: %s without trusted proxies", name, o.Group)
		}
	}
}

func FuzzOrigin(f *testing.F) {
	f.Add("198.51.100.1, 10.2.2.2", `for="[2001:db8::1]:80";proto=https`)
	f.Add(",,", ";=;")
	trusted, err := parseProxies([]string{"10.0.0.0/8"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, xff, fwd string) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		r.RemoteAddr = "10.1.1.1:1"
		r.Header.Add("X-Forwarded-For", xff)
		r.Header.Add("Forwarded", fwd)
		if o := trusted.originOf(r); !o.Group.IsValid() || o.Addr.Zone() != "" {
			t.Fatalf("%+v", o)
		}
	})
}

// TestIPGroups: an IPv4 address and an IPv6 /64 are one client.
func TestIPGroups(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7:1":             "192.0.2.7/32",
		"[::ffff:192.0.2.7]:1":    "192.0.2.7/32",
		"[2001:db8:1:2:3::4]:1":   "2001:db8:1:2::/64",
		"[2001:db8:1:2:ffff::]:1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":        "fe80::/64",
	} {
		if got := conns.GroupOf(conns.AddrOf(addr)).String(); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}
