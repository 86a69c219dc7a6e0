package access

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Peers, and addresses of several places.
const (
	alice = "12D3KooWE4239U7UocwvYzy1zc4TNYj54dUB2XWKEPgZJCCWAeKJ"
	bob   = "12D3KooWGNmUBG3X9hjhg97uAdJLoYeTDVw3u1JwBByrBW9UFS4S"
	relay = "12D3KooWAAoD1PyquneS2oV9AYsCqcxteX7ytdktUb1CfTX1Ac3W"

	here    = "/ip4/192.0.2.7/tcp/1"
	there   = "/ip4/198.51.100.1/udp/1/quic-v1"
	v6      = "/ip6/2001:db8::7/tcp/1"
	mapped  = "/ip6/::ffff:192.0.2.7/tcp/1"
	relayed = "/ip4/192.0.2.7/tcp/1/p2p/" + relay + "/p2p-circuit"
)

func id(t testing.TB, s string) peer.ID {
	t.Helper()
	p, err := peer.Decode(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t testing.TB, lines string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(name, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// at is the addresses of a connection.
type at struct{ remote string }

func (a at) LocalMultiaddr() ma.Multiaddr  { return ma.StringCast("/ip4/127.0.0.1/tcp/1") }
func (a at) RemoteMultiaddr() ma.Multiaddr { return ma.StringCast(a.remote) }

// TestDecisions: each kind of entry, at each step at which the gater is asked.
func TestDecisions(t *testing.T) {
	t.Parallel()
	const none = "-" // listen.allow names no file
	for _, c := range []struct {
		name, allow, deny, id, addr      string
		said, dial, addrs, accept, shake bool // whether it is denied
	}{
		{"nothing is named", none, "", alice, here, false, false, false, false, false},
		{"a comment", none, "# " + alice + "\n\n  #\n", alice, here, false, false, false, false, false},
		{"a denied id", none, alice + " # she", alice, here, true, true, true, false, true},
		{"another id", none, alice, bob, here, false, false, false, false, false},
		{"a denied address", none, "192.0.2.7", alice, here, false, false, true, true, true},
		{"a denied network", none, "192.0.2.0/24\n10.0.0.0/8", alice, here, false, false, true, true, true},
		{"all of IPv4", none, "0.0.0.0/0", alice, v6, false, false, false, false, false},
		{"a denied network of IPv6", none, "2001:db8::/32", alice, v6, false, false, true, true, true},
		{"IPv4 in IPv6", none, "192.0.2.0/24", alice, mapped, false, false, true, true, true},
		{"a denied entry in IPv6 form", none, "::ffff:192.0.2.7", alice, here, false, false, true, true, true},
		{"another place", none, "192.0.2.0/24", alice, there, false, false, false, false, false},
		{"behind a denied relay", none, relay, alice, relayed, false, false, true, true, true},
		{"behind a relay at a denied address", none, "192.0.2.7", alice, relayed, false, false, true, true, true},
		{"nobody is allowed", "", "", alice, here, true, true, true, true, true},
		{"an allowed id", alice, "", alice, here, false, false, false, false, false},
		{"an id that is not allowed", alice, "", bob, here, true, true, true, false, true},
		{"an allowed network", "192.0.2.0/24", "", alice, here, false, false, false, false, false},
		{"a network that is not allowed", "192.0.2.0/24", "", alice, there, false, false, true, true, true},
		{"an id or a network", bob + "\n192.0.2.0/24", "", alice, there, false, false, true, false, true},
		{"allowed and denied", alice, alice, alice, here, true, true, true, false, true},
		{"allowed, at a denied address", alice, "192.0.2.0/24", alice, here, false, false, true, true, true},
		{"an allowed relay's address", "192.0.2.0/24", "", alice, relayed, false, false, true, true, true},
		{"allowed, behind a relay", alice, "", alice, relayed, false, false, false, false, false},
	} {
		cfg := Config{Deny: []string{write(t, c.deny)}}
		if c.allow != none {
			cfg.Allow = []string{write(t, c.allow)}
		}
		l, err := New(cfg, Deps{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		g, p, conn := l.Gater(), id(t, c.id), at{c.addr}
		for step, is := range map[string][2]bool{
			"said":      {l.Denied(p), c.said},
			"dial":      {!g.InterceptPeerDial(p), c.dial},
			"address":   {!g.InterceptAddrDial(p, conn.RemoteMultiaddr()), c.addrs},
			"accept":    {!g.InterceptAccept(conn), c.accept},
			"handshake": {!g.InterceptSecured(network.DirInbound, p, conn), c.shake},
		} {
			if is[0] != is[1] {
				t.Errorf("%s, %s: denied is %v", c.name, step, is[0])
			}
		}
	}
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	for line, words := range map[string]string{
		"nonsense":               "neither a peer id",
		alice + " " + bob:        "more than one word",
		"192.0.2.1/24":           "write 192.0.2.0/24",
		"192.0.2.0/33":           "no network",
		"::ffff:192.0.2.0/120":   "written as IPv6",
		"fe80::1%eth0":           "zone",
		"\xff":                   "not UTF-8",
		strings.Repeat("1", 2e3): "more than 1024 bytes",
	} {
		_, err := New(Config{Deny: []string{write(t, "# one\n"+line)}}, Deps{})
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), words) ||
			!strings.Contains(err.Error(), "line 2 of") {
			t.Errorf("%.20q: %v", line, err)
		}
	}
	for name, file := range map[string]string{"missing": "/nonexistent/list", "a directory": t.TempDir()} {
		if _, err := New(Config{Allow: []string{file}}, Deps{}); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	var many strings.Builder
	for i := range MaxEntries + 1 {
		fmt.Fprintf(&many, "10.%d.%d.%d\n", i>>16, i>>8&255, i&255)
	}
	_, err := New(Config{Deny: []string{write(t, many.String())}}, Deps{})
	if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), "more than 100000 entries") {
		t.Errorf("too many: %v", err)
	}
}

// TestReload: a good change is in force at once, a bad one changes nothing and is counted.
func TestReload(t *testing.T) {
	t.Parallel()
	file := write(t, alice)
	l, err := New(Config{Deny: []string{file}}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	end := run(t, l)
	defer end()
	change := func(lines string) error {
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		return l.Reload(t.Context())
	}
	if err := change(bob); err != nil || l.Denied(id(t, alice)) || !l.Denied(id(t, bob)) {
		t.Errorf("a change: %v", err)
	}
	if err := change(alice + "\nnonsense"); status.Of(err) != status.BadRequest || !l.Denied(id(t, bob)) ||
		l.Denied(id(t, alice)) {
		t.Errorf("a bad change: %v", err)
	}
	if testutil.ToFloat64(l.m.reloads.WithLabelValues("failed")) < 1 {
		t.Error("the failure is not counted")
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := l.Reload(t.Context()); err == nil || !l.Denied(id(t, bob)) {
		t.Errorf("a file that is gone: %v", err)
	}
}

// TestReconfigure: a list that had no file takes other files at the next reload, and gives them up again.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	l, err := New(Config{}, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	end := run(t, l)
	defer end()
	for _, c := range []struct {
		cfg    Config
		denied bool
	}{
		{Config{Deny: []string{write(t, alice)}}, true}, {Config{Allow: []string{write(t, bob)}}, true}, {Config{}, false},
	} {
		l.Reconfigure(c.cfg)
		if err := l.Reload(t.Context()); err != nil || l.Denied(id(t, alice)) != c.denied || l.Denied(id(t, bob)) {
			t.Errorf("%+v: %v, alice denied: %v", c.cfg, err, l.Denied(id(t, alice)))
		}
	}
}

// run runs the list until end is called.
func run(t *testing.T, l *List) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done, ready := make(chan error, 1), make(chan struct{})
	go func() { done <- l.Run(ctx, func() { close(ready) }) }()
	<-ready
	return func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("Run does not end")
		}
	}
}

// FuzzParseLine: a line that is taken denies what it names, and no line panics.
func FuzzParseLine(f *testing.F) {
	for _, s := range []string{alice, "192.0.2.7", "192.0.2.0/24", "2001:db8::/32", "# x", "a b", "::ffff:1.2.3.4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, ok, err := parseLine(line)
		if !ok || err != nil {
			return
		}
		s := newSet()
		s.add(e)
		if e.id != "" && !s.hasID(e.id) || e.id == "" && !s.hasAddr(e.net.Addr()) {
			t.Errorf("%q is taken and names nothing", line)
		}
	})
}
