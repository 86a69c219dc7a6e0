package certs

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/gateway/certs/certstest"
	"allium/internal/env"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// together writes a certificate and its key into one file.
func together(t *testing.T, a *certstest.Authority, file string, until time.Time, names ...string) {
	t.Helper()
	leaf, key := a.Sign(t, certstest.Leaf(until, names...))
	chain, private := certstest.PEM(t, key, leaf)
	certstest.Write(t, file, append(chain, private...))
}

// shown returns the names of the certificate that a source shows for a name.
func shown(t *testing.T, s Source, name string) string {
	t.Helper()
	c, err := s.Get(&tls.ClientHelloInfo{ServerName: name})
	if err != nil {
		return ""
	}
	return strings.Join(hostNames(c.Leaf), " ")
}

// TestSeveralFiles: each handshake gets the certificate that names its host, the first one that does,
// and the first of all if none does.
func TestSeveralFiles(t *testing.T) {
	t.Parallel()
	a, dir, until := certstest.New(t), t.TempDir(), time.Now().Add(time.Hour)
	cert, key := a.Pair(t, dir, until, "node.test", "both.test")
	wild, live := filepath.Join(dir, "wild.pem"), filepath.Join(dir, "live")
	together(t, a, wild, until, "*.B3.test", "both.test", "203.0.113.7")
	if err := os.Mkdir(live, 0o700); err != nil {
		t.Fatal(err)
	}
	again := func(until time.Time, names ...string) {
		cert, key := a.Pair(t, t.TempDir(), until, names...)
		for from, to := range map[string]string{cert: chainFile, key: keyFile} {
			if err := os.Rename(from, filepath.Join(live, to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	again(until, "live.test")
	f, err := newCertFiles(Config{Cert: cert, Key: key, Certs: []string{wild, live}}, slog.New(slog.DiscardHandler),
		newMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	const first, second, third = "node.test both.test", "*.b3.test both.test 203.0.113.7", "live.test"
	for name, want := range map[string]string{
		"node.test": first, "NODE.test.": first, "": first, "other.test": first, "both.test": first,
		"x.b3.test": second, "X.B3.TEST": second, "203.0.113.7": second, "live.test": third,
		"b3.test": first, "a.x.b3.test": first, "*.b3.test": second, "203.0.113.8": first,
	} {
		if got := shown(t, f, name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for host, want := range map[string]bool{
		"x.b3.test": true, "203.0.113.7": true, "live.test": true, "b3.test": false, "other.test": false, "": false,
	} {
		if f.Covers(t.Context(), host) != want {
			t.Errorf("%q is covered: %t", host, !want)
		}
	}
	if f.Name() != "node.test" || f.Check() != nil {
		t.Errorf("%s: %v", f.Name(), f.Check())
	}

	defer testkit.Start(t, f.files.Run)()
	certstest.Write(t, wild, []byte("nonsense"))
	again(until.Add(time.Minute), "live.test", "new.test")
	if err := f.Reload(t.Context()); status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), wild) {
		t.Errorf("a bad file among good ones: %v", err)
	}
	if shown(t, f, "x.b3.test") != second || shown(t, f, "new.test") != "live.test new.test" {
		t.Error("a bad file changes more than it must")
	}
	f.Reconfigure(Config{Certs: []string{live}})
	if err := f.Reload(t.Context()); err != nil || f.Covers(t.Context(), "node.test") || f.Name() != "live.test" {
		t.Errorf("fewer files: %v", err)
	}
	if _, err := newCertFiles(Config{Certs: []string{live, wild}}, slog.New(slog.DiscardHandler),
		newMetrics(nil)); status.Of(err) != status.BadRequest {
		t.Errorf("a bad file at the start: %v", err)
	}
}

// TestFilesAndAuthority: a name that a file has is the file's, and others are the authority's.
func TestFilesAndAuthority(t *testing.T) {
	t.Parallel()
	ca, dir := certstest.New(t), t.TempDir()
	until := time.Now().Add(time.Hour)
	cfg := DefaultConfig()
	cfg.Cert, cfg.Key = ca.Pair(t, dir, until, "node.test", "*.b3.test")
	cfg.ACMEDomains, cfg.ACMEIP = []string{"www.test"}, true
	s, err := New(cfg, Deps{
		Env: env.Env{Now: time.Now},
		Node: Node{Addresses: func(context.Context) []netip.Addr {
			return []netip.Addr{netip.MustParseAddr("203.0.113.7")}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := s.(*both)
	if err := b.Check(); status.Of(err) != status.NotReady || !strings.Contains(err.Error(), "www.test") {
		t.Errorf("one is missing: %v", err)
	}
	if shown(t, b, "") != "node.test *.b3.test" || shown(t, b, "www.test") != "" || b.Name() != "node.test" {
		t.Error("before there is one of the authority")
	}
	b.acme.look(t.Context())
	for _, name := range []string{"www.test", "203.0.113.7"} {
		leaf, _ := ca.Sign(t, certstest.Leaf(until, name))
		b.acme.use(name, &tls.Certificate{Leaf: leaf})
	}
	for name, want := range map[string]string{
		"node.test": "node.test *.b3.test", "x.b3.test": "node.test *.b3.test", "www.test": "www.test",
		"": "203.0.113.7", "other.test": "",
	} {
		if got := shown(t, b, name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for host, want := range map[string]bool{"www.test": true, "x.b3.test": true, "other.test": false} {
		if b.Covers(t.Context(), host) != want {
			t.Errorf("%s is covered: %t", host, !want)
		}
	}
	if err := b.Check(); err != nil {
		t.Error(err)
	}
	if _, err := b.Get(&tls.ClientHelloInfo{
		ServerName: "node.test", SupportedProtos: []string{ALPNProto},
	}); err == nil {
		t.Error("the authority gets a certificate in place of a proof")
	}
	cfg.Cert = filepath.Join(dir, "none")
	if s, err := New(cfg, Deps{}); err == nil || s != nil {
		t.Errorf("no file: %v", err)
	}
}
