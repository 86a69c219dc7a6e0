package origin

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"allium/protocols/status"
)

// special are addresses of every special range: the first, the last or one that somebody would try. private means that
// private = true lifts it.
var special = []struct {
	addr    string
	private bool
}{
	{"0.0.0.0", false}, {"0.1.2.3", false}, {"10.0.0.1", true}, {"10.255.255.255", true}, {"100.64.0.1", true},
	{"100.127.255.255", true}, {"127.0.0.1", true}, {"127.255.255.254", true}, {"169.254.169.254", true},
	{"172.16.0.1", true}, {"172.31.255.255", true}, {"192.0.0.8", false}, {"192.0.0.170", false}, {"192.0.2.1", false},
	{"192.31.196.1", false}, {"192.52.193.1", false}, {"192.88.99.1", false}, {"192.168.0.1", true},
	{"192.175.48.1", false}, {"198.18.0.1", false}, {"198.19.255.255", false}, {"198.51.100.7", false},
	{"203.0.113.9", false}, {"224.0.0.1", false}, {"239.255.255.250", false}, {"240.0.0.1", false},
	{"255.255.255.255", false},

	{"::", false}, {"::1", true}, {"::127.0.0.1", false}, {"::8.8.8.8", false}, {"::ffff:127.0.0.1", false},
	{"::ffff:8.8.8.8", false}, {"64:ff9b::7f00:1", false}, {"64:ff9b::8.8.8.8", false}, {"64:ff9b:1::1", false},
	{"100::1", false}, {"100:0:0:1::1", false}, {"2001::1", false}, {"2001:0:4136:e378:8000:63bf:3fff:fdd2", false},
	{"2001:2::1", false}, {"2001:10::1", false}, {"2001:20::1", false}, {"2001:db8::1", false},
	{"2002:7f00:1::1", false}, {"2002:808:808::1", false}, {"2620:4f:8000::1", false}, {"3fff::1", false},
	{"5f00::1", false}, {"fc00::1", true}, {"fd00:ec2::254", true}, {"fe80::1", true}, {"fe80::1%eth0", true},
	{"febf::1", true}, {"fec0::1", false}, {"ff02::1", false}, {"4000::1", false}, {"8000::1", false}, {"1::1", false},
	{"2600::1%eth0", false},
}

// public are addresses just outside the special ranges.
var public = []string{
	"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1",
	"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0",
	"198.17.255.255", "198.20.0.0", "223.255.255.255", "2001:200::1", "2001:4860:4860::8888", "2003::1", "2600::1",
	"2a00::1", "3ffe::1",
}

func TestSpecialAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range special {
		a := netip.MustParseAddr(c.addr)
		if err := checkAddress(a, false); err == nil {
			t.Errorf("%s may be dialed", a)
		}
		if err := checkAddress(a, true); (err == nil) != c.private {
			t.Errorf("%s with private: %v", a, err)
		}
		network := "tcp6"
		if a.Is4() {
			network = "tcp4"
		}
		if err := checkDial(network, netip.AddrPortFrom(a, 443).String(), false); err == nil {
			t.Errorf("%s may be dialed", a)
		}
	}
	for _, text := range public {
		if err := checkAddress(netip.MustParseAddr(text), false); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, at := range []string{"", "localhost:443", "8.8.8.8", "/run/socket", "@abstract", "[::1]:443"} {
		if checkDial("tcp4", at, false) == nil {
			t.Errorf("%q may be dialed", at)
		}
	}
	for _, network := range []string{"unix", "udp4", "ip4:icmp", "tcp"} {
		if checkDial(network, "8.8.8.8:443", true) == nil {
			t.Errorf("%s may be dialed", network)
		}
	}
	if err := checkAddress(netip.Addr{}, true); err == nil {
		t.Error("no address may be dialed")
	}
}

// TestNamesOfSpecialAddresses: a host whose name leads to a special address is not connected to, whatever the DNS says
// first.
func TestNamesOfSpecialAddresses(t *testing.T) {
	t.Parallel()
	dns := resolver(t, func(host string, n int64) []string {
		switch label, _, _ := strings.Cut(host, "."); label {
		case "rebind":
			if n%2 == 1 {
				return []string{"127.0.0.1"} // what a second answer would say
			}
			return []string{"127.0.0.1", "::1"}
		case "both":
			return []string{"127.0.0.1", "::1", "10.0.0.1"}
		default:
			i := 0
			if _, err := fmt.Sscanf(label, "n%d", &i); err != nil {
				return nil
			}
			return []string{strings.TrimSuffix(special[i].addr, "%eth0")}
		}
	})
	hosts := []string{"rebind.example", "both.example"}
	for i, c := range special {
		if a := netip.MustParseAddr(c.addr); !a.Is4In6() && a.Zone() == "" { // the DNS has neither
			hosts = append(hosts, fmt.Sprintf("n%d.example", i))
		}
	}
	for _, host := range hosts {
		c, err := New(Config{Source: "maps", URLs: []string{"https://" + host}, MaxBytes: 1, Params: quick()},
			Deps{Resolver: dns})
		if err != nil {
			t.Fatal(host, err)
		}
		_, err = c.Get(t.Context(), Request{Path: "a"})
		want(t, host, err, status.NotAllowed, "address")
		c.Close()
	}
}

// TestSpelledAddresses: an address is refused in every spelling: by New, or else in the dialer.
func TestSpelledAddresses(t *testing.T) {
	t.Parallel()
	dns := resolver(t, func(string, int64) []string { return []string{"127.0.0.1"} })
	for _, host := range []string{
		"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0x7f.1", "017700000001", "0177.0.0.1",
		"127.0.0.1.", "0", "00000000", "0.0.0.0", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
		"[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]",
		"[fe80::1%25eth0]", "169.254.169.254", "[fd00:ec2::254]", "localhost", "LOCALHOST", "localhost.", "a.localhost",
		"１２７.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1", "127.0.0.1%00.example.com", "[::1%25]", "[127.0.0.1]",
		"10.0.0.1", "192.168.1.1", "0xa9fea9fe", "2852039166", "example.0x1", "1e3", "127.0.0.1:443",
	} {
		url := "https://" + host + "/"
		c, err := New(Config{Source: "maps", URLs: []string{url}, MaxBytes: 1, Params: quick()}, Deps{Resolver: dns})
		if err != nil {
			continue
		}
		_, err = c.Get(t.Context(), Request{Path: "a"})
		want(t, url, err, status.NotAllowed, "address")
		c.Close()
	}
}

// TestURLs: a base URL has nothing but a scheme, a host, a port and a path.
func TestURLs(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"https://example.com": true, "https://example.com/": true, "https://example.com/a/b/": true,
		"https://example.com:8443/a": true, "https://[2600::1]/": true, "https://xn--bcher-kva.example": true,
		"http://example.com": false, "ftp://example.com": false, "//example.com": false, "example.com": false,
		"https:example.com": false, "https:///a": false, "file:///etc/passwd": false, "": false, "https://": false,
		"https://a:b@example.com": false, "https://a@example.com": false, "https://example.com?a=b": false,
		"https://example.com?": false, "https://example.com#a": false, "https://example.com#": false,
		"https://example.com/a/../b": false, "https://example.com/a//b": false, "https://example.com/%2e%2e/": false,
		"https://example.com/a%2fb": false, "https://example.com/a%00": false, `https://example.com/a\b`: false,
		"https://example.com:99999999": true, "https://exa mple.com": false, "https://256.256.256.256": false,
	} {
		_, err := New(Config{URLs: []string{url}}, Deps{Resolver: neverAsk(t)})
		if (err == nil) != ok {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && strings.Contains(err.Error(), ":b@") {
			t.Errorf("%q: the error shows a password: %v", url, err)
		}
	}
	if _, err := New(Config{URLs: []string{"http://example.com"}, PlainHTTP: true}, Deps{}); err != nil {
		t.Error(err)
	}
	if _, err := New(Config{}, Deps{}); err == nil {
		t.Error("a source without a URL")
	}
}

// TestPrivate: private = true reaches a loopback origin, and without it nothing is sent.
func TestPrivate(t *testing.T) {
	t.Parallel()
	ok := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("x")) }
	if _, _, err := newRig(t, ok, nil).get(t, "a"); err != nil {
		t.Error(err)
	}
	r := newRig(t, ok, func(c *Config, _ *Deps) { c.Private = false })
	_, _, err := r.get(t, "a")
	want(t, "public", err, status.NotAllowed, "address")
	if n := r.asked.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}
