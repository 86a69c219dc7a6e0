package weblink

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
)

// TestPlaces: there is one URL for each reach, the farthest first, with the address that the machine sends from.
func TestPlaces(t *testing.T) {
	t.Parallel()
	addrs := func(texts ...string) (all []netip.Addr) {
		for _, s := range texts {
			all = append(all, netip.MustParseAddr(s))
		}
		return all
	}
	everywhere := netip.MustParseAddrPort("0.0.0.0:80")
	for name, c := range map[string]struct {
		listener  netip.AddrPort
		all       []netip.Addr
		preferred string
		want      []Place
	}{
		"all": {everywhere, addrs("127.0.0.1", "::1", "fe80::1", "172.17.0.1", "192.168.1.7", "fd00::1", "2001:db8::1",
			"8.8.8.8", "100.64.1.1"), "192.168.1.7", []Place{
			{"http://8.8.8.8:80/s/x/", api.ReachUnconfirmed}, {"http://192.168.1.7:80/s/x/", api.ReachLAN},
			{"http://127.0.0.1:80/s/x/", api.ReachMachine},
		}},
		"no address of the Internet": {everywhere, addrs("::1", "192.0.2.2"), "", []Place{
			{"http://192.0.2.2:80/s/x/", api.ReachLAN}, {"http://[::1]:80/s/x/", api.ReachMachine},
		}},
		"IPv6 alone": {everywhere, addrs("::1", "2606:4700::1"), "", []Place{
			{"http://[2606:4700::1]:80/s/x/", api.ReachUnconfirmed}, {"http://[::1]:80/s/x/", api.ReachMachine},
		}},
		"one address": {netip.MustParseAddrPort("10.0.0.1:80"), addrs("127.0.0.1"), "", []Place{
			{"http://10.0.0.1:80/s/x/", api.ReachLAN},
		}},
	} {
		preferred, _ := netip.ParseAddr(c.preferred)
		if got := places(c.listener, c.all, preferred, "/s/x/"); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestOnGateway(t *testing.T) {
	t.Parallel()
	for base, want := range map[string][]Place{
		"": nil, "http://127.0.0.1:8080": nil, "http://localhost:8080": nil, "http://[::1]:8080": nil,
		"http://192.168.1.7:8080": {{"http://192.168.1.7:8080/s/x/", api.ReachLAN}},
		"https://files.example":   {{"https://files.example/s/x/", api.ReachUnconfirmed}},
	} {
		if got := onGateway(base, "/s/x/"); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", base, got)
		}
	}
	all := []Place{
		{"http://8.8.8.8/", api.ReachUnconfirmed}, {"http://127.0.0.1/", api.ReachMachine},
		{"https://files.example/", api.ReachUnconfirmed},
	}
	if sortPlaces(all); all[0].URL != "https://files.example/" || all[2].Reach != api.ReachMachine {
		t.Errorf("%v", all)
	}
}

// TestAtGateway: a plain gateway at every address has those that others reach; another has its own, or none.
func TestAtGateway(t *testing.T) {
	t.Parallel()
	addrs := []netip.Addr{
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.168.1.7"), netip.MustParseAddr("8.8.4.4"),
	}
	for _, c := range []struct{ base, listen, want string }{
		{"http://127.0.0.1:8080", ":8080", "http://8.8.4.4:8080 http://192.168.1.7:8080"},
		{"http://127.0.0.1:8080", "0.0.0.0:8080", "http://8.8.4.4:8080 http://192.168.1.7:8080"},
		{"http://[::1]:8080", "[::]:8080", "http://8.8.4.4:8080 http://192.168.1.7:8080"},
		{"http://127.0.0.1:8080", "127.0.0.1:8080", ""},
		{"https://127.0.0.1:8443", ":8443", ""}, // its certificate has another name
		{"https://gw.example.org", ":443", "https://gw.example.org"},
		{"http://192.168.1.7:8080", "192.168.1.7:8080", "http://192.168.1.7:8080"},
		{"", ":8080", ""},
	} {
		var got []string
		for _, p := range atGateway(c.base, c.listen, addrs, addrs[2]) {
			got = append(got, p.URL)
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s at %s: %q, want %q", c.base, c.listen, text, c.want)
		}
	}
	if got := atGateway("http://127.0.0.1:8080", ":8080", addrs[:1], addrs[0]); len(got) > 0 {
		t.Errorf("a machine without a network: %v", got)
	}
}

// TestGuesses: each client has guesses of its own, and the clients that are remembered are bounded.
func TestGuesses(t *testing.T) {
	t.Parallel()
	g := newGuesses(limits.NewRegistry(nil))
	client := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	for range guessBurst {
		if err := g.allowed(client(0)); err != nil {
			t.Fatal(err)
		}
		g.count(client(0))
	}
	if g.allowed(client(0)) == nil || g.allowed(client(1)) != nil {
		t.Error("the guesses of one client count for another, or not at all")
	}
	for i := range 2 * maxGuests {
		g.count(client(i + 2))
	}
	if g.lru.Len() != maxGuests {
		t.Errorf("%d clients are remembered", g.lru.Len())
	}
}

// TestExpiresWhileUnused: a link that nobody opens ends when it expires.
func TestExpiresWhileUnused(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := &link{Options: Options{NotAfter: now.Add(time.Minute)}}
	if _, ended := l.take(now); ended {
		t.Error("ended before")
	}
	if _, ended := l.take(now.Add(time.Minute)); !ended {
		t.Error("not ended")
	}
}

// FuzzResumes: no Range header makes a request for a beginning the continuation of a download.
func FuzzResumes(f *testing.F) {
	for _, s := range []string{"", "bytes=0-", "bytes=1-", "BYTES=5-6", "bytes=-5", "bytes=00-", "items=3-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if got := rangeResumes(header); got && (len(header) < len("bytes=1-") || header[len("bytes="):] == "0-") {
			t.Errorf("%q resumes", header)
		}
	})
}
