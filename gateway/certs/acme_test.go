package certs

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"allium/gateway/certs/certstest"
	"allium/internal/env"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// down is an authority that nobody reaches.
type down struct{}

func (down) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("nobody is there")
}

// onDemand makes a source that certifies the domains below served.test on demand.
func onDemand(t *testing.T, dir string, now func() time.Time) (*acmeCerts, *logBuffer) {
	t.Helper()
	cfg := DefaultConfig()
	cfg.ACMEOnDemand = true
	log := new(logBuffer)
	a, err := newACMECerts(cfg, Deps{
		Env: env.Env{Log: slog.New(slog.NewTextHandler(log, nil)), Now: now},
		Node: Node{ACMEDir: dir, Served: func(_ context.Context, domain string) bool {
			return strings.HasSuffix(domain, ".served.test")
		}},
	}, newMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	a.authority.calls = down{}
	return a, log
}

// demanded returns how many handshakes ended with a result.
func demanded(a *acmeCerts, result string) float64 {
	return testutil.ToFloat64(a.m.demands.WithLabelValues(result))
}

// TestDemandWaitsBriefly: while nobody orders, a handshake waits for its bound, one more than
// may wait is refused at once, and neither do strangers' names wait.
func TestDemandWaitsBriefly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, _ := onDemand(t, "", time.Now)
		begun := time.Now()
		var all sync.WaitGroup
		for i := range maxWaits {
			all.Go(func() {
				if _, err := a.demand(t.Context(), fmt.Sprintf("a%d.served.test", i/2)); !errors.Is(err, errNoCertificate) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := a.demand(t.Context(), "more.served.test"); err == nil || demanded(a, demandRefused) != 1 {
			t.Errorf("one more waits: %v", err)
		}
		all.Wait()
		if took := time.Since(begun); took != firstWait || demanded(a, demandLate) != maxWaits {
			t.Errorf("%s, %v late", took, demanded(a, demandLate))
		}
		if n := len(a.demands.wanted); n != maxWaits/2 {
			t.Errorf("%d orders for %d domains", n, maxWaits/2)
		}
		for _, name := range []string{"other.test", "served.test", "..served.test", "*.served.test", "10.0.0.1", "a", ""} {
			if _, err := a.demand(t.Context(), name); err == nil {
				t.Errorf("%q has a certificate", name)
			}
		}
		if time.Since(begun) != firstWait {
			t.Error("a stranger's name waits")
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.demand(gone, "b.served.test"); err == nil || time.Since(begun) != firstWait {
			t.Errorf("who has left waits: %v", err)
		}
	})
}

// TestDemandFailures: an order that fails is not made again before its pause has ended, after a
// restart neither, and each failure makes the pause longer.
func TestDemandFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		const domain = "a.served.test"
		var last time.Duration
		for round := range 4 {
			a, log := onDemand(t, dir, time.Now)
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { a.Run(ctx) })
			begun := time.Now()
			if _, err := a.demand(ctx, domain); err == nil || demanded(a, demandRefused) != 1 {
				t.Errorf("round %d: %v after %s", round, err, time.Since(begun))
			}
			synctest.Wait()
			if !strings.Contains(log.String(), "nobody is there") {
				t.Errorf("round %d: %s", round, log.String())
			}
			pause := time.Until(a.ledger.book.Failures[domain].Again)
			if pause <= last {
				t.Errorf("round %d: a pause of %s after one of %s", round, pause, last)
			}
			last = pause
			stop()
			running.Wait()

			again, _ := onDemand(t, dir, time.Now)
			time.Sleep(pause - time.Second)
			if _, err := again.demand(t.Context(), domain); err == nil || len(again.demands.wanted) != 0 {
				t.Errorf("round %d: ordered again before the pause ended", round)
			}
			time.Sleep(2 * time.Second)
		}
	})
}

// TestOrdersPerHour: what is on demand is ordered so often at most, and that is remembered.
func TestOrdersPerHour(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a, _ := onDemand(t, dir, time.Now)
		for i := range ordersPerHour {
			if !a.ledger.take(time.Now()) {
				t.Fatalf("order %d", i)
			}
			time.Sleep(time.Second)
		}
		a.ledger.save()
		a, _ = onDemand(t, dir, time.Now)
		if a.ledger.take(time.Now()) || a.ledger.allows("x.served.test", time.Now()) {
			t.Error("one order too many")
		}
		if back := time.Now().Add(-24 * time.Hour); !a.ledger.allows("x.served.test", back) {
			t.Error("a clock that is set back stops all orders")
		}
		a, _ = onDemand(t, dir, time.Now)
		time.Sleep(time.Hour - ordersPerHour*time.Second)
		if !a.ledger.take(time.Now()) || a.ledger.take(time.Now()) {
			t.Error("an hour after the first there is place for one")
		}
	})
}

// TestConfiguredFailures: other domains are tried while one fails, and a clock that is set back does
// not stop them.
func TestConfiguredFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shift atomic.Int64 // nanoseconds
		cfg := DefaultConfig()
		cfg.ACMEDomains = []string{"a.test", "b.test", "c.test"}
		a, err := newACMECerts(cfg, Deps{Env: env.Env{
			Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return time.Now().Add(time.Duration(shift.Load())) },
		}}, newMetrics(nil))
		if err != nil {
			t.Fatal(err)
		}
		a.authority.calls = down{}
		defer testkit.Start(t, func(ctx context.Context, ready func()) error { ready(); a.Run(ctx); return nil })()
		failed := func() float64 { return testutil.ToFloat64(a.m.certUpdates.WithLabelValues("failed")) }
		time.Sleep(acmeCall) // the library tries a call again
		synctest.Wait()
		if failed() != 3 {
			t.Errorf("%v failures of 3 domains", failed())
		}
		time.Sleep(acmeRetry*5/4 + 2*lookEvery)
		synctest.Wait()
		if failed() != 6 {
			t.Errorf("%v failures after the first pause", failed())
		}
		shift.Store(int64(-30 * 24 * time.Hour))
		time.Sleep(acmeMaxRetry*5/4 + 2*lookEvery)
		synctest.Wait()
		if failed() < 9 {
			t.Errorf("%v failures after the clock was set back", failed())
		}
	})
}

// TestStoredOnDemand: certificates from before are used again, those that ended are forgotten, and
// one of a domain that is not served any more goes when it would be renewed.
func TestStoredOnDemand(t *testing.T) {
	t.Parallel()
	ca, dir := certstest.New(t), t.TempDir()
	keep := func(life time.Duration, name string) {
		leaf, key := ca.Sign(t, certstest.Leaf(time.Now().Add(life), name))
		chain, private := certstest.PEM(t, key, leaf)
		if err := acmeCache(dir).put(fileOf(name), append(private, chain...)); err != nil {
			t.Fatal(err)
		}
	}
	keep(110*time.Minute, "a.served.test")
	keep(-time.Minute, "ended.served.test")
	keep(10*time.Minute, "other.test") // its half is over
	a, log := onDemand(t, dir, time.Now)
	defer testkit.Start(t, func(ctx context.Context, ready func()) error { ready(); a.Run(ctx); return nil })()
	testkit.Eventually(t, "the domain that is not served is forgotten", func() bool {
		return strings.Contains(log.String(), "does not serve") && a.held("other.test") == nil
	})
	if c, err := a.demand(t.Context(), "other.test"); err == nil {
		t.Errorf("%v", c.Leaf.DNSNames)
	}
	if !a.Covers(t.Context(), "new.served.test") || a.Covers(t.Context(), "other.test") {
		t.Error("what may be ordered is not covered, or too much is")
	}
	if a.held("a.served.test") == nil || !a.Covers(t.Context(), "a.served.test") {
		t.Error("a stored certificate is not used")
	}
	testkit.Eventually(t, "the others' files are gone", func() bool {
		names := acmeCache(dir).list(10)
		for _, name := range names {
			if name == "ended.served.test" || name == "other.test" {
				return false
			}
		}
		return true
	})
}

// TestAddresses: a handshake without a name gets the certificate of the address where it arrived, or of
// another one of the node, before that of a domain.
func TestAddresses(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.ACMEIP, cfg.ACMEDomains = true, []string{"node.test"}
	var ips []netip.Addr
	a, err := newACMECerts(cfg, Deps{
		Env:  env.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now},
		Node: Node{Addresses: func(context.Context) []netip.Addr { return ips }},
	}, newMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	ca := certstest.New(t)
	give := func(names ...string) *tls.Certificate {
		leaf, _ := ca.Sign(t, certstest.Leaf(time.Now().Add(time.Hour), names...))
		c := &tls.Certificate{Leaf: leaf}
		a.use(names[0], c)
		return c
	}
	domain := give("node.test")
	if err := a.Check(); status.Of(err) != status.NotReady || !strings.Contains(err.Error(), "no public address") {
		t.Errorf("without an address: %v", err)
	}
	ips = []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("2001:db8::7"),
		netip.MustParseAddr("203.0.113.8"), netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("203.0.113.10")}
	a.look(t.Context())
	if n := len(*a.ips.Load()); n != maxAddresses {
		t.Errorf("%d addresses", n)
	}
	if err := a.Check(); status.Of(err) != status.NotReady || !strings.Contains(err.Error(), "203.0.113.7") {
		t.Errorf("without a certificate of one: %v", err)
	}
	at := func(addr string) net.Conn {
		return arrived{addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}
	}
	get := func(conn net.Conn, name string) *tls.Certificate {
		c, _ := a.Get(&tls.ClientHelloInfo{Conn: conn, ServerName: name})
		return c
	}
	if get(at("203.0.113.7:443"), "") != domain {
		t.Error("without one, it is the domain's")
	}
	six := give("2001:db8::7")
	four := give("203.0.113.7")
	for name, c := range map[string]struct {
		conn net.Conn
		name string
		want *tls.Certificate
	}{
		"at IPv4":       {at("203.0.113.7:443"), "", four},
		"mapped":        {at("[::ffff:203.0.113.7]:443"), "", four},
		"at IPv6":       {at("[2001:db8::7]:443"), "", six},
		"behind NAT":    {at("192.168.1.2:443"), "", four},
		"no connection": {nil, "", four},
		"by name":       {at("203.0.113.7:443"), "node.test", domain},
	} {
		if get(c.conn, c.name) != c.want {
			t.Errorf("%s: another certificate", name)
		}
	}
	if err := a.Check(); err != nil || !a.Covers(t.Context(), "203.0.113.7") || a.Covers(t.Context(), "203.0.113.8") {
		t.Errorf("%v", err)
	}
}

// arrived is a connection that arrived at an address.
type arrived struct {
	net.Conn
	addr net.Addr
}

func (a arrived) LocalAddr() net.Addr { return a.addr }

func TestRenewal(t *testing.T) {
	t.Parallel()
	end := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	for life, left := range map[time.Duration]time.Duration{
		90 * 24 * time.Hour: 30 * 24 * time.Hour,
		12 * 24 * time.Hour: 4 * 24 * time.Hour,
		160 * time.Hour:     80 * time.Hour, // of the profile shortlived
		time.Minute:         30 * time.Second,
	} {
		got := end.Sub(renewal(&x509.Certificate{NotBefore: end.Add(-life), NotAfter: end}))
		if got != left {
			t.Errorf("%s: renewed when %s are left, want %s", life, got, left)
		}
	}
}

func TestHandshakeName(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"node.test":   "node.test",
		"203.0.113.7": "7.113.0.203.in-addr.arpa",
		"2001:db8::567:89ab": "b.a.9.8.7.6.5.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2" +
			".ip6.arpa",
	} {
		if got := handshakeName(subject); got != want {
			t.Errorf("%s: %s, want %s", subject, got, want)
		}
	}
}

// TestLedgerForgets: the failures of many domains leave those that end last.
func TestLedgerForgets(t *testing.T) {
	t.Parallel()
	l := openLedger("", time.Now(), slog.New(slog.DiscardHandler))
	for i := range maxFailures {
		l.failed(fmt.Sprintf("a%d.test", i), time.Now().Add(time.Duration(i)*time.Hour))
	}
	l.failed("last.test", time.Now().Add(maxFailures*time.Hour))
	if len(l.book.Failures) != maxFailures || l.book.Failures["last.test"].Count != 1 {
		t.Errorf("%d failures", len(l.book.Failures))
	}
	if _, ok := l.book.Failures["a0.test"]; ok {
		t.Error("the first to end is there")
	}
	l.succeeded("last.test")
	if !l.allows("last.test", time.Now()) {
		t.Error("a success does not count")
	}
}

// TestBook: what is written is read back.
func TestBook(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_800_000_000, 0).UTC()
		l := openLedger("", now, slog.New(slog.DiscardHandler))
		for range rapid.IntRange(0, 80).Draw(t, "events") {
			domain := rapid.SampledFrom([]string{"a.test", "b.test", "c.test"}).Draw(t, "domain")
			now = now.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "minutes")) * time.Minute)
			switch {
			case !l.allows(domain, now):
			case rapid.Bool().Draw(t, "fails"):
				l.take(now)
				l.failed(domain, now)
			default:
				l.take(now)
				l.succeeded(domain)
			}
		}
		raw, err := json.Marshal(l.book)
		if err != nil {
			t.Fatal(err)
		}
		l.book.expire(now)
		again := parseBook(raw, now)
		if fmt.Sprint(again) != fmt.Sprint(l.book) {
			t.Errorf("%v, want %v", again, l.book)
		}
	})
}

// FuzzLedger: whatever is in the file, a node's ledger is bounded and lets each domain be ordered
// again in time.
func FuzzLedger(f *testing.F) {
	now := time.Unix(1_800_000_000, 0).UTC()
	f.Add([]byte(`{"orders":["2027-01-15T07:59:00Z"],"failures":{"a.test":{"count":3,"again":"2027-01-15T09:00:00Z"}}}`))
	f.Add([]byte(`{"failures":{"../x":{"count":-1},"a.test":{"count":9999999999,"again":"9999-01-01T00:00:00Z"}}}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b := parseBook(raw, now)
		if len(b.Orders) > ordersPerHour || len(b.Failures) > maxFailures {
			t.Fatalf("%d orders, %d failures", len(b.Orders), len(b.Failures))
		}
		l := &ledger{book: b}
		for domain, f := range b.Failures {
			if !domainName(domain) || f.Count < 1 || f.Count > maxCount {
				t.Errorf("%q failed %d times", domain, f.Count)
			}
			if !l.allows(domain, now.Add(acmeMaxRetry*5/4)) {
				t.Errorf("%q is not ordered again in time", domain)
			}
		}
		var out bytes.Buffer
		if err := json.NewEncoder(&out).Encode(b); err != nil {
			t.Error(err)
		}
	})
}
