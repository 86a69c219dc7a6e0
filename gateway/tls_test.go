package gateway

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"allium/gateway/certs"
	"allium/gateway/certs/certstest"
	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// fetch reads a page over https.
func fetch(t testing.TB, c *http.Client, method, url string, headers ...string) answer {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return answer{resp, string(body), err}
}

// TestTLS serves both versions of HTTP with HSTS on all answers, and says it
// is https; the admin listener and the socket stay as they are.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t))
	base := n.Addrs().Gateway
	if !strings.HasPrefix(base, "https://node.test:") {
		t.Errorf("the gateway is on %s", base)
	}
	root := n.objects.put([]byte("hello"))
	for _, h2 := range []bool{false, true} {
		c := a.https(t, n, h2)
		got := fetch(t, c, "GET", base+"/o/"+root.String())
		if got.body != "hello" || (got.ProtoMajor == 2) != h2 || got.TLS.Version != tls.VersionTLS13 {
			t.Errorf("h2 %t: %s %s %q, TLS %x", h2, got.Proto, got.Status, got.body, got.TLS.Version)
		}
		for _, page := range []string{"/o/" + root.String(), "/healthz", "/nothing", "/"} {
			if got := fetch(t, c, "GET", base+page); got.Header.Get("Strict-Transport-Security") != "max-age=31536000" {
				t.Errorf("%s: HSTS %q", page, got.Header.Get("Strict-Transport-Security"))
			}
		}
	}
	admin := do(t, "GET", n.Addrs().Admin+"/version")
	if admin.StatusCode != http.StatusOK || admin.Header.Get("Strict-Transport-Security") != "" {
		t.Errorf("admin: %s %v", admin.Status, admin.Header)
	}
	testkit.Eventually(t, "two handshakes", func() bool { return n.counter("tls_handshakes_total", "ok") == 2 })
	if got := counterOf(t, n.reg, "tls_cert_not_after_seconds") - float64(time.Now().Unix()); got < 3000 || got > 3600 {
		t.Errorf("the certificate ends in %v s", got)
	}
	// Who speaks http there is told so, and gets nothing.
	resp, err := transport.RoundTrip(httpRequest(t, "http://"+address(t, base)+"/healthz"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("http on https: %s", resp.Status)
	}
}

func httpRequest(t testing.TB, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestHSTS(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]certs.Config{
		"":             {HSTS: time.Hour},
		"max-age=3600": {Cert: "c", HSTS: time.Hour},
		"max-age=60; includeSubDomains": {
			ACME: certs.ACME{ACMEDomains: []string{"x"}}, HSTS: time.Minute, HSTSSubdomains: true,
		},
		"max-age=31536000": {Cert: "c", HSTS: certs.DefaultConfig().HSTS},
	} {
		if got := c.StrictTransportSecurity(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (certs.Config{Cert: "c"}).StrictTransportSecurity(); got != "" {
		t.Errorf("hsts 0 says %q", got)
	}
}

// TestOldTLS: 1.1 is refused, 1.2 gets a suite with forward secrecy and AEAD.
func TestOldTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t))
	old := &tls.Config{
		RootCAs: a.Pool, ServerName: "node.test", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11,
	}
	if c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), old); err == nil {
		c.Close()
		t.Error("TLS 1.1 is spoken")
	}
	weak := &tls.Config{
		RootCAs: a.Pool, ServerName: "node.test", MaxVersion: tls.VersionTLS12,
		CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA},
	}
	if c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), weak); err == nil {
		c.Close()
		t.Error("a weak suite is spoken")
	}
	testkit.Eventually(t, "two failed handshakes", func() bool {
		return n.counter("tls_handshakes_total", "failed") == 2
	})
	c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), &tls.Config{
		RootCAs: a.Pool, ServerName: "node.test", MaxVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if s := tls.CipherSuiteName(c.ConnectionState().CipherSuite); !strings.HasPrefix(s, "TLS_ECDHE_") ||
		strings.Contains(s, "CBC") {
		t.Errorf("suite %s", s)
	}
}

// TestSlowHandshake is cut and counted, and its place is free again.
func TestSlowHandshake(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) {
		c.HeaderTimeout, c.ConnsPerIP = 50*time.Millisecond, 1
	}))
	c, err := net.Dial("tcp", address(t, n.Addrs().Gateway))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{22, 3, 1, 1, 0}); err != nil { // the head of a record that never comes
		t.Fatal(err)
	}
	if b, err := readAll(c); err != nil || b != "" {
		t.Errorf("%q, %v", b, err)
	}
	testkit.Eventually(t, "a handshake that timed out", func() bool {
		return n.counter("tls_handshakes_total", "timeout") == 1
	})
	testkit.Eventually(t, "a free place", func() bool {
		c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), &tls.Config{RootCAs: a.Pool, ServerName: "node.test"})
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// TestLimitBeforeHandshake: a connection over the bound is closed before a byte
// of TLS.
func TestLimitBeforeHandshake(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) { c.ConnsPerIP = 1 }))
	_ = a.dialTLS(t, n, "h2")
	if c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), &tls.Config{
		RootCAs: a.Pool, ServerName: "node.test",
	}); err == nil {
		c.Close()
		t.Error("a second connection")
	}
	if got := n.rejected("conns_per_ip"); got != 1 {
		t.Errorf("%d rejected", got)
	}
	testkit.Eventually(t, "a handshake", func() bool { return n.counter("tls_handshakes_total", "ok") == 1 })
	if got := n.counter("tls_handshakes_total", "failed"); got != 0 {
		t.Errorf("%v handshakes were begun with who was refused", got)
	}
}

// TestSessionTickets: a client that comes again need not prove anything anew.
func TestSessionTickets(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t))
	cfg := &tls.Config{RootCAs: a.Pool, ServerName: "node.test", ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for i := range 2 {
		c, err := tls.Dial("tcp", address(t, n.Addrs().Gateway), cfg)
		if err != nil {
			t.Fatal(err)
		}
		// The ticket comes with the first bytes that are read.
		roundTrip(t, c, "GET /healthz HTTP/1.1\r\nHost: node.test\r\nConnection: close\r\n\r\n", "200 OK")
		if c.ConnectionState().DidResume != (i == 1) {
			t.Errorf("connection %d resumed: %t", i, i == 0)
		}
		c.Close()
	}
}

// TestCertificateReloadServes: who connects after the change sees it.
func TestCertificateReloadServes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("waits for the node to look at the files")
	}
	a, dir := newAuthority(t), t.TempDir()
	cert, key := a.Pair(t, dir, time.Now().Add(time.Hour), "node.test")
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.TLS.Cert, c.TLS.Key = cert, key })
	a.Pair(t, dir, time.Now().Add(90*time.Minute), "node.test", "new.test")
	testkit.Eventually(t, "the new certificate", func() bool {
		return counterOf(t, n.reg, "tls_certificate_updates_total", "ok") == 1
	})
	if got := a.dialTLS(t, n).ConnectionState().PeerCertificates[0].DNSNames; len(got) != 2 {
		t.Errorf("served: %v", got)
	}
}

// TestCertificateReloadAsked: what is asked for is in use when the answer comes,
// and a bad one is an error each time, not only when it changes.
func TestCertificateReloadAsked(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t), t.TempDir()
	cert, key := a.Pair(t, dir, time.Now().Add(time.Hour), "node.test")
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.TLS.Cert, c.TLS.Key = cert, key })
	reload := n.CertificateReload()
	served := func() int { return len(a.dialTLS(t, n).ConnectionState().PeerCertificates[0].DNSNames) }
	if err := reload(t.Context()); err != nil || served() != 1 {
		t.Errorf("the same again: %v, %d names", err, served())
	}
	a.Pair(t, dir, time.Now().Add(90*time.Minute), "node.test", "new.test")
	if err := reload(t.Context()); err != nil || served() != 2 {
		t.Errorf("a new one: %v, %d names", err, served())
	}
	certstest.Write(t, key, nil)
	for range 2 {
		if err := reload(t.Context()); status.Of(err) != status.BadRequest || served() != 2 {
			t.Errorf("a bad one: %v, %d names", err, served())
		}
	}
	if start(t).CertificateReload() != nil {
		t.Error("there is nothing to reload without files")
	}
}

func TestExpiredCertificate(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.Pair(t, t.TempDir(), time.Now().Add(-time.Minute), "node.test")
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.TLS.Cert, c.TLS.Key = cert, key })
	if err := n.CertificateError(); status.Of(err) != status.NotReady || !strings.Contains(err.Error(), "renew") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(n.log.String(), "renew") {
		t.Error("nothing in the log")
	}
	if err := start(t).CertificateError(); err != nil {
		t.Errorf("without TLS: %v", err)
	}
}

// TestRedirect sends to the certificate's names and to nobody else's.
func TestRedirect(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) { c.TLS.RedirectListen = "127.0.0.1:0" }))
	base, to := n.Addrs().Redirect, n.Addrs().Gateway
	_, port, _ := strings.Cut(strings.TrimPrefix(to, "https://"), ":")
	for _, c := range []struct{ host, page, want string }{
		{"node.test", "/", to + "/"},
		{"node.test:80", "/o/b3:x?y=z&%20", to + "/o/b3:x?y=z&%20"},
		{"NODE.test.", "/b3/a%2fb/", to + "/b3/a%2fb/"},
		{"a.sites.test", "/", "https://a.sites.test:" + port + "/"},
		{"node.test", "//evil.test/x", to + "//evil.test/x"},
		{"evil.test", "/", ""},
		{"node.test.evil.test", "/", ""},
		{"a.b.sites.test", "/", ""},
		{"node.test@evil.test", "/", ""},
		{"node.test/evil", "/", ""},
		{"127.0.0.1", "/", ""},
	} {
		got := do(t, "GET", base+c.page, "Host", c.host)
		if c.want == "" {
			if got.StatusCode != http.StatusBadRequest { // net/http's own answer to a Host that is none
				got.problem(t, status.NotAllowed)
			}
			if got.Header.Get("Location") != "" {
				t.Errorf("%s: %s", c.host, got.Header.Get("Location"))
			}
			continue
		}
		if got.StatusCode != http.StatusPermanentRedirect || got.Header.Get("Location") != c.want ||
			got.Header.Get("Strict-Transport-Security") != "" {
			t.Errorf("%s%s: %s %v", c.host, c.page, got.Status, got.Header)
		}
	}
	do(t, "POST", base+"/o", "Host", "node.test").problem(t, status.Method)
	do(t, "GET", base+"/.well-known/acme-challenge/x", "Host", "node.test").problem(t, status.NotFound)
	for send, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost:\r\n\r\n":                           "400",
		"GET / HTTP/1.0\r\n\r\n":                                    "403",
		"GET http://evil.test/ HTTP/1.1\r\nHost: node.test\r\n\r\n": "403",
		"OPTIONS * HTTP/1.1\r\nHost: node.test\r\n\r\n":             "200",
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: node.test\r\n\r\n": "405",
	} {
		c, err := net.Dial("tcp", address(t, base))
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, c, send, want)
		c.Close()
	}
}

// TestRedirectPort: where a router gives the port another number.
func TestRedirectPort(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	n := start(t, a.withTLS(t, func(c *Config, _ *server.AdminConfig) {
		c.TLS.RedirectListen, c.TLS.RedirectPort = "127.0.0.1:0", 443
	}))
	if got := do(t, "GET", n.Addrs().Redirect+"/x", "Host",
		"node.test").Header.Get("Location"); got != "https://node.test/x" {
		t.Error(got)
	}
}

func TestTLSConfigIsChecked(t *testing.T) {
	t.Parallel()
	acme := func(c *certs.Config, domains ...string) { c.ACMEDomains, c.ACMEAcceptTOS = domains, true }
	for name, c := range map[string]struct {
		change func(*Config)
		key    string
	}{
		"a certificate alone":    {func(c *Config) { c.TLS.Cert = "x" }, "cert and key"},
		"a key alone":            {func(c *Config) { c.TLS.Key = "x" }, "cert and key"},
		"no terms on demand":     {func(c *Config) { c.TLS.ACMEOnDemand = true }, "acme_accept_tos"},
		"no terms for addresses": {func(c *Config) { c.TLS.ACMEIP = true }, "acme_accept_tos"},
		"a file without a name":  {func(c *Config) { c.TLS.Certs = []string{"a.pem", ""} }, "certs"},
		"too many files":         {func(c *Config) { c.TLS.Certs = make([]string, 65) }, "at most 64"},
		"files and no listener":  {func(c *Config) { c.TLS.Certs, c.Listen = []string{"a.pem"}, "" }, "gateway.listen"},
		"no terms":               {func(c *Config) { c.TLS.ACMEDomains = []string{"node.test"} }, "acme_accept_tos"},
		"a wildcard":             {func(c *Config) { acme(&c.TLS, "*.node.test") }, "acme_domains"},
		"an address":             {func(c *Config) { acme(&c.TLS, "192.0.2.1") }, "acme_domains"},
		"a path":                 {func(c *Config) { acme(&c.TLS, "../x.test") }, "acme_domains"},
		"one label":              {func(c *Config) { acme(&c.TLS, "localhost") }, "acme_domains"},
		"capitals":               {func(c *Config) { acme(&c.TLS, "Node.test") }, "acme_domains"},
		"too many":               {func(c *Config) { acme(&c.TLS, make([]string, 33)...) }, "at most 32"},
		"a plain directory": {func(c *Config) {
			acme(&c.TLS, "node.test")
			c.TLS.ACMEDirectory = "http://x"
		}, "acme_directory"},
		"no address": {func(c *Config) {
			acme(&c.TLS, "node.test")
			c.TLS.ACMEEmail = "Me <me@x>"
		}, "acme_email"},
		"a redirect to nowhere": {func(c *Config) { c.TLS.RedirectListen = ":80" }, "redirect_listen"},
		"a redirect without port": {func(c *Config) {
			acme(&c.TLS, "node.test")
			c.TLS.RedirectListen = "x"
		}, "redirect_listen"},
		"a bad redirect port": {func(c *Config) { c.TLS.RedirectPort = 70000 }, "redirect_port"},
		"no listener":         {func(c *Config) { acme(&c.TLS, "node.test"); c.Listen = "" }, "gateway.listen"},
		"both kinds of h2":    {func(c *Config) { acme(&c.TLS, "node.test"); c.H2C = true }, "h2c"},
		"negative HSTS":       {func(c *Config) { c.TLS.HSTS = -1 }, "hsts"},
	} {
		cfg := DefaultConfig()
		c.change(&cfg)
		if err := cfg.Validate(); status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := DefaultConfig()
	acme(&cfg.TLS, "node.test", "xn--nde-sna.example.org")
	cfg.TLS.ACMEEmail, cfg.TLS.RedirectListen = "me@example.org", ":80"
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

// TestNoPair: a Gateway whose certificate is not there is not made.
func TestNoPair(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.TLS.Cert, cfg.TLS.Key = t.TempDir()+"/none.pem", t.TempDir()+"/none.key"
	if _, err := New(cfg, server.DefaultAdminConfig(), Deps{
		Objects: &fakeObjects{}, Index: &fakeIndex{}, Node: &fakeNode{}, Ready: nothingReady,
	}); status.Of(err) != status.BadRequest {
		t.Errorf("no files: %v", err)
	}
}
