package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/certs/certstest"
	"allium/gateway/hosts"
	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/b3"

	"golang.org/x/net/dns/dnsmessage"
)

// pebble is an ACME authority of its own, for which every name is 127.0.0.1.
type pebble struct {
	directory string         // URL
	ca        string         // PEM file of what signed its own https
	roots     *x509.CertPool // of the certificates it gives
}

var portsGiven sync.Map

// freePort is a port that nobody listens on. It is below those that systems
// give out by themselves, so that no other test gets it meanwhile.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.N(20_000)
		if _, given := portsGiven.LoadOrStore(port, true); given {
			continue
		}
		if l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// startPebble runs the authority, which looks for proofs on two ports.
//
// It signs with a profile of its own choice where an order names none, so a test that orders for domains and for
// addresses knows of the first only that they are signed.
func startPebble(t *testing.T, tlsPort, httpPort int, profiles map[string]any) *pebble {
	t.Helper()
	program := tool(t, "acmetest")
	a, dir := newAuthority(t), t.TempDir()
	cert, key := a.Pair(t, dir, time.Now().Add(time.Hour), "127.0.0.1")
	chain, _ := certstest.PEM(t, a.Key, a.Cert)
	ca := filepath.Join(dir, "ca.pem")
	certstest.Write(t, ca, chain)
	listen, manage := "127.0.0.1:"+strconv.Itoa(freePort(t)), "127.0.0.1:"+strconv.Itoa(freePort(t))
	cfg, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": listen, "managementListenAddress": manage, "certificate": cert, "privateKey": key,
		"httpPort": httpPort, "tlsPort": tlsPort, "retryAfter": map[string]int{"authz": 1, "order": 1},
		"keyAlgorithm": "ecdsa", "profiles": profiles,
	}})
	if err != nil {
		t.Fatal(err)
	}
	certstest.Write(t, filepath.Join(dir, "config.json"), cfg)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	cmd := exec.CommandContext(ctx, program, "-config", filepath.Join(dir, "config.json"), "-dnsserver", loopbackDNS(t))
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	var log logBuffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("pebble: %s", log.String())
		}
	})
	p := &pebble{directory: "https://" + listen + "/dir", ca: ca, roots: x509.NewCertPool()}
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: a.Pool}, DisableKeepAlives: true}
	testkit.Eventually(t, "pebble answers", func() bool {
		resp, err := tr.RoundTrip(httpRequest(t, "https://"+manage+"/roots/0"))
		if err != nil {
			return false
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !p.roots.AppendCertsFromPEM(raw) {
			t.Fatalf("pebble's root: %q, %v", raw, err)
		}
		return true
	})
	return p
}

// loopbackDNS answers, over TCP, that every name is 127.0.0.1.
func loopbackDNS(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			answerDNS(c)
			c.Close()
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return l.Addr().String()
}

// answerDNS answers the one question of a connection.
func answerDNS(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(patience))
	var length [2]byte
	if _, err := io.ReadFull(c, length[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(length[:]))
	var m dnsmessage.Message
	if _, err := io.ReadFull(c, question); err != nil || m.Unpack(question) != nil || len(m.Questions) != 1 {
		return
	}
	m.Response, m.Additionals = true, nil
	if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	answer, err := m.Pack()
	if err != nil {
		return
	}
	_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)) // who asked asks again
}

// withACME lets a Gateway get its certificates from pebble.
func (p *pebble) withACME(tlsPort, httpPort int, domains ...string) option {
	return func(c *Config, _ *server.AdminConfig) {
		c.Listen = "127.0.0.1:" + strconv.Itoa(tlsPort)
		if httpPort != 0 {
			c.TLS.RedirectListen = "127.0.0.1:" + strconv.Itoa(httpPort)
		}
		c.TLS.ACMEDomains, c.TLS.ACMEDirectory, c.TLS.ACMECA, c.TLS.ACMEAcceptTOS = domains, p.directory, p.ca, true
		c.TLS.ACMEEmail = "me@example.org"
	}
}

// served is the certificate that the Gateway shows for a name.
func (p *pebble) served(t *testing.T, n *testNode, name string) *x509.Certificate {
	t.Helper()
	c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), &tls.Config{RootCAs: p.roots, ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

// TestACME gets certificates by TLS-ALPN-01, keeps them over a restart, renews
// them when their time comes, and gets them by HTTP-01 where the authority does
// not reach the other.
func TestACME(t *testing.T) {
	t.Parallel()
	tlsPort, httpPort := freePort(t), freePort(t)
	p := startPebble(t, tlsPort, httpPort, nil)
	home := filepath.Join(t.TempDir(), "acme")
	kept := hooks{deps: func(d *Deps) { d.Certs.ACMEDir = home }}
	n := startWith(t, kept, p.withACME(tlsPort, 0, "node.test", "www.node.test"))
	testkit.Eventually(t, "both certificates", func() bool {
		if counterOf(t, n.reg, "tls_certificate_updates_total", "failed") > 0 {
			t.Fatal(n.log.String())
		}
		return counterOf(t, n.reg, "tls_certificate_updates_total", "ok") == 2
	})
	first := p.served(t, n, "node.test")
	p.served(t, n, "www.node.test")
	if err := n.CertificateError(); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]os.FileMode{
		home: 0o700 | os.ModeDir, filepath.Join(home, "node.test"): 0o600,
		filepath.Join(home, "acme_account.key"): 0o600,
	} {
		if fi, err := os.Stat(path); err != nil || fi.Mode() != want {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	if _, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), &tls.Config{
		RootCAs: p.roots, ServerName: "other.test",
	}); err == nil {
		t.Error("a name that is not the node's has a certificate")
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}

	n = startWith(t, kept, p.withACME(tlsPort, 0, "node.test", "www.node.test"))
	testkit.Eventually(t, "no certificate error", func() bool { return n.CertificateError() == nil })
	if again := p.served(t, n, "node.test"); !again.Equal(first) {
		t.Error("another certificate after a restart")
	}
	if got := counterOf(t, n.reg, "tls_certificate_updates_total", "ok"); got != 0 {
		t.Errorf("%v certificates were got again", got)
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}

	// Two thirds of their time later, with the same account, and by HTTP-01: what
	// speaks TLS is not where the authority looks.
	later := time.Until(first.NotAfter.Add(-first.NotAfter.Sub(first.NotBefore)/3)) + time.Minute
	keeps := kept.deps
	kept.deps = func(d *Deps) {
		keeps(d)
		d.Now = func() time.Time { return time.Now().Add(later) }
	}
	n = startWith(t, kept, p.withACME(freePort(t), httpPort, "node.test"))
	testkit.Eventually(t, "no certificate error", func() bool { return n.CertificateError() == nil })
	testkit.Eventually(t, "a new certificate", func() bool {
		if counterOf(t, n.reg, "tls_certificate_updates_total", "failed") > 0 {
			t.Fatal(n.log.String())
		}
		return counterOf(t, n.reg, "tls_certificate_updates_total", "ok") > 0
	})
	if again := p.served(t, n, "node.test"); again.Equal(first) {
		t.Error("not renewed")
	}
	if got := do(t, "GET", n.Addrs().Redirect+"/.well-known/acme-challenge/x", "Host",
		"node.test"); got.StatusCode != http.StatusNotFound {
		t.Errorf("a token that is none: %s", got.Status)
	}
}

// shortLived is the profile of certificates for addresses.
var shortLived = map[string]any{"shortlived": map[string]any{"description": "some days", "validityPeriod": 160 * 3600}}

// counted returns how many handshakes for domains on demand ended with a result.
func counted(t *testing.T, n *testNode, result string) float64 {
	t.Helper()
	return counterOf(t, n.reg, "tls_on_demand_total", result)
}

// TestOnDemand gets the certificate of a domain that is served inside its first handshake, for all who ask at
// once, keeps it over a restart, and asks for nothing for domains that are not served.
func TestOnDemand(t *testing.T) {
	t.Parallel()
	tlsPort := freePort(t)
	p := startPebble(t, tlsPort, 0, nil)
	home := filepath.Join(t.TempDir(), "acme")
	kept := hooks{deps: func(d *Deps) {
		d.Certs.ACMEDir = home
	}}
	demand := func(c *Config, _ *server.AdminConfig) {
		c.TLS.ACMEOnDemand = true
		c.Hosts.Sites = map[string]hosts.Site{"site": {
			Domain: "www.site.test", Aliases: []string{"blog.site.test"}, Key: b3.Sum(nil).String(),
		}}
	}
	n := startWith(t, kept, p.withACME(tlsPort, 0), demand)
	if err := n.CertificateError(); err != nil {
		t.Errorf("what is on demand keeps the gate shut: %v", err)
	}
	first := p.served(t, n, "www.site.test") // it registers too, and so it may be late
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if !p.served(t, n, "blog.site.test").Equal(p.served(t, n, "blog.site.test")) {
				t.Error("two certificates of a domain")
			}
		})
	}
	all.Wait()
	if got := counterOf(t, n.reg, "tls_certificate_updates_total", "ok"); got != 2 {
		t.Errorf("%v certificates of two domains", got)
	}
	for _, name := range []string{"other.test", "localhost", "1.2.3.4.5"} {
		if _, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), &tls.Config{
			RootCAs: p.roots, ServerName: name,
		}); err == nil {
			t.Errorf("%s has a certificate", name)
		}
	}
	if counted(t, n, "unknown") != 1 || counted(t, n, "refused") != 0 {
		t.Errorf("%v unknown, %v refused", counted(t, n, "unknown"), counted(t, n, "refused"))
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	n = startWith(t, kept, p.withACME(tlsPort, 0), demand)
	if again := p.served(t, n, "www.site.test"); !again.Equal(first) {
		t.Error("another certificate after a restart")
	}
	if got := counterOf(t, n.reg, "tls_certificate_updates_total", "ok"); got != 0 {
		t.Errorf("%v certificates were got again", got)
	}
}

// TestAddressCertificate gets a certificate for the node's address by both kinds of proof, shows it to whoever names no
// host, and renews it at half of its time.
func TestAddressCertificate(t *testing.T) {
	t.Parallel()
	tlsPort, httpPort := freePort(t), freePort(t)
	p := startPebble(t, tlsPort, httpPort, shortLived)
	var later time.Duration
	kept := hooks{deps: func(d *Deps) {
		d.Certs.ACMEDir = filepath.Join(t.TempDir(), "acme")
		d.Certs.Addresses = func(context.Context) []netip.Addr { return []netip.Addr{netip.MustParseAddr("127.0.0.1")} }
		d.Now = func() time.Time { return time.Now().Add(later) }
	}}
	byIP := func(c *Config, _ *server.AdminConfig) { c.TLS.ACMEIP = true }
	var before *x509.Certificate
	for name, ports := range map[string][2]int{"tls-alpn-01": {tlsPort, 0}, "http-01": {freePort(t), httpPort}} {
		n := startWith(t, kept, p.withACME(ports[0], ports[1]), byIP)
		testkit.Eventually(t, name+": a certificate", func() bool {
			if counterOf(t, n.reg, "tls_certificate_updates_total", "failed") > 0 {
				t.Fatal(n.log.String())
			}
			return counterOf(t, n.reg, "tls_certificate_updates_total", "ok") == 1
		})
		c := p.served(t, n, "127.0.0.1") // a client names no address
		if life := c.NotAfter.Sub(c.NotBefore).Round(time.Minute); life != 160*time.Hour || len(c.IPAddresses) != 1 ||
			before != nil && c.Equal(before) {
			t.Errorf("%s: valid for %s, for %v", name, life, c.IPAddresses)
		}
		testkit.Eventually(t, "the gate is open", func() bool { return n.CertificateError() == nil })
		if redirect := n.Addrs().Redirect; redirect != "" {
			got := do(t, "GET", redirect+"/x", "Host", "127.0.0.1:80")
			if to := got.Header.Get("Location"); !strings.HasPrefix(to, "https://127.0.0.1:") {
				t.Errorf("%s: redirected to %q", name, to)
			}
		}
		if err := n.stop(); err != nil {
			t.Fatal(err)
		}
		before = c
		later = time.Until(c.NotAfter) - 80*time.Hour + time.Minute
	}
}
