package certs

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/gateway/certs/certstest"
	"allium/internal/env"
	"allium/internal/testkit"
	"allium/protocols/status"
)

func TestACMEHandshakes(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.ACMEDomains = []string{"node.test", "www.node.test"}
	a, err := newACMECerts(cfg, Deps{Env: env.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}}, newMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Check(); status.Of(err) != status.NotReady || !strings.Contains(err.Error(), "node.test") {
		t.Errorf("%v", err)
	}
	cert, proof := &tls.Certificate{}, &tls.Certificate{}
	a.certs["node.test"], a.authority.proofs.certs["www.node.test"] = cert, proof
	for _, c := range []struct {
		name   string
		protos []string
		want   *tls.Certificate
	}{
		{"node.test", []string{"h2", "http/1.1"}, cert},
		{"NODE.test.", nil, cert},
		{"", nil, cert}, // of who does not say: the first
		{"www.node.test", nil, nil},
		{"other.test", nil, nil},
		{"www.node.test", []string{ALPNProto}, proof},
		{"node.test", []string{ALPNProto}, nil},
		{"www.node.test", []string{"h2", ALPNProto}, nil},
	} {
		got, err := a.Get(&tls.ClientHelloInfo{ServerName: c.name, SupportedProtos: c.protos})
		if got != c.want || (err != nil) != (c.want == nil) || err != nil && !errors.Is(err, errNoCertificate) {
			t.Errorf("%q %v: %v, %v", c.name, c.protos, got, err)
		}
	}
}

// TestACMECacheIsChecked: what is kept is used only if it still holds.
func TestACMECacheIsChecked(t *testing.T) {
	t.Parallel()
	ca, dir := certstest.New(t), t.TempDir()
	cfg := DefaultConfig()
	cfg.ACMEDomains = []string{"node.test"}
	deps := Deps{Env: env.Env{Log: slog.New(slog.DiscardHandler), Now: time.Now}, Node: Node{ACMEDir: dir}}
	a, err := newAuthority(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(until time.Time, name string) {
		leaf, key := ca.Sign(t, certstest.Leaf(until, name))
		chain, private := certstest.PEM(t, key, leaf)
		certstest.Write(t, filepath.Join(dir, "node.test"), append(private, chain...))
	}
	if a.stored("node.test") != nil {
		t.Error("there is nothing")
	}
	keep(time.Now().Add(time.Hour), "node.test")
	if a.stored("node.test") == nil {
		t.Error("a good one is not used")
	}
	keep(time.Now().Add(-time.Hour), "node.test")
	if a.stored("node.test") != nil {
		t.Error("it ended")
	}
	keep(time.Now().Add(time.Hour), "other.test")
	if a.stored("node.test") != nil {
		t.Error("it is another name's")
	}
	certstest.Write(t, filepath.Join(dir, "node.test"), []byte("nonsense"))
	if a.stored("node.test") != nil {
		t.Error("it is nonsense")
	}
	key, raw, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := parseKey(raw); err != nil ||
		!again.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(key.Public()) {
		t.Errorf("the account's key: %v", err)
	}
	for _, bad := range [][]byte{
		nil, []byte("x"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}),
	} {
		if _, err := parseKey(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
	cfg.ACMECA = filepath.Join(dir, "node.test")
	if _, err := newAuthority(cfg, deps); status.Of(err) != status.BadRequest {
		t.Errorf("acme_ca: %v", err)
	}
}

// TestCertificateReload: a new pair is taken over; a bad one, half of one or
// none leaves the old and is said once.
func TestCertificateReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := certstest.New(t)
		cert, key := a.Pair(t, dir, time.Now().Add(time.Hour), "node.test")
		var log logBuffer
		m := newMetrics(nil)
		f, err := newCertFiles(Config{Cert: cert, Key: key}, slog.New(slog.NewTextHandler(&log, nil)), m)
		if err != nil {
			t.Fatal(err)
		}
		defer testkit.Start(t, f.files.Run)()
		inUse := func() *tls.Certificate { return f.current.Load().first }
		first := inUse()
		look := func(what string, ok, failed float64, want *tls.Certificate) {
			t.Helper()
			for _, name := range []string{cert, key} {
				_ = os.Chtimes(name, time.Now(), time.Now()) // it may be gone
			}
			time.Sleep(5 * pollEvery)
			synctest.Wait()
			if got := inUse(); want != nil && got != want {
				t.Errorf("%s: another certificate is in use", what)
			}
			if o, b := testutil.ToFloat64(m.certUpdates.WithLabelValues("ok")),
				testutil.ToFloat64(m.certUpdates.WithLabelValues("failed")); o != ok || b != failed {
				t.Errorf("%s: %v ok, %v failed, want %v and %v", what, o, b, ok, failed)
			}
		}
		look("the same", 0, 0, first)
		_, other := a.Sign(t, certstest.Leaf(time.Now().Add(time.Hour), "node.test"))
		_, private := certstest.PEM(t, other)
		certstest.Write(t, key, private)
		look("a key of another certificate", 0, 1, first)
		certstest.Write(t, key, nil)
		look("no key in the file", 0, 2, first)
		if err := os.Remove(key); err != nil {
			t.Fatal(err)
		}
		look("no file", 0, 3, first)
		a.Pair(t, dir, time.Now().Add(-time.Hour), "node.test")
		look("it ended", 0, 4, first)
		a.Pair(t, dir, time.Now().Add(90*time.Minute), "other.test")
		look("a good one", 1, 4, nil)
		if !f.Covers(t.Context(), "other.test") || f.Covers(t.Context(), "node.test") || f.Check() != nil {
			t.Errorf("in use: %v, %v", inUse().Leaf.DNSNames, f.Check())
		}
		a.Pair(t, dir, time.Now().Add(90*time.Minute), "third.test")
		if err := os.Chmod(key, 0o644); err != nil {
			t.Fatal(err)
		}
		look("a key that others can read", 1, 5, nil)
		if err := os.Chmod(key, 0o600); err != nil {
			t.Fatal(err)
		}
		look("a key that they cannot read any more", 2, 5, nil)
		if got := strings.Count(log.String(), "level=WARN"); got != 5 {
			t.Errorf("%d warnings: %s", got, log.String())
		}
	})
}

// TestReconfigure: a pair of other files is taken over at the next reload, and one that cannot be used leaves the old.
func TestReconfigure(t *testing.T) {
	t.Parallel()
	a := certstest.New(t)
	pair := func(host string) Config {
		cert, key := a.Pair(t, t.TempDir(), time.Now().Add(time.Hour), host)
		return Config{Cert: cert, Key: key}
	}
	one, two := pair("one.test"), pair("two.test")
	f, err := newCertFiles(one, slog.New(slog.DiscardHandler), newMetrics(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer testkit.Start(t, f.files.Run)()
	f.Reconfigure(Config{Cert: one.Cert, Key: two.Key})
	if err := f.Reload(t.Context()); err == nil || !f.Covers(t.Context(), "one.test") {
		t.Errorf("halves of two pairs: %v", err)
	}
	f.Reconfigure(two)
	if err := f.Reload(t.Context()); err != nil || !f.Covers(t.Context(), "two.test") {
		t.Errorf("%v", err)
	}
}

// TestPairs: what cannot be used is refused, and the error says what to do.
func TestPairs(t *testing.T) {
	t.Parallel()
	a, other := certstest.New(t), certstest.New(t)
	until := time.Now().Add(time.Hour)
	leaf, key := a.Sign(t, certstest.Leaf(until, "node.test"))
	nameless, namelessKey := a.Sign(t, certstest.Leaf(until))
	_, stranger := a.Sign(t, certstest.Leaf(until, "node.test"))
	for _, c := range []struct {
		name    string
		chain   []*x509.Certificate
		key     crypto.Signer
		mode    os.FileMode
		outcome status.Outcome
		says    string
	}{
		{"good", []*x509.Certificate{leaf}, key, 0o600, status.OK, ""},
		{"for a group", []*x509.Certificate{leaf}, key, 0o640, status.OK, ""},
		{"with its signer", []*x509.Certificate{leaf, a.Cert}, key, 0o600, status.OK, ""},
		{"of others' eyes", []*x509.Certificate{leaf}, key, 0o644, status.Forbidden, "chmod 600"},
		{"of the group's hands", []*x509.Certificate{leaf}, key, 0o660, status.Forbidden, "chmod 600"},
		{"another's key", []*x509.Certificate{leaf}, stranger, 0o600, status.BadRequest, "match"},
		{"signer first", []*x509.Certificate{a.Cert, leaf}, key, 0o600, status.BadRequest, "match"},
		{
			"another's signer", []*x509.Certificate{leaf, other.Cert}, key, 0o600, status.BadRequest,
			"put the node's own first",
		},
		{"for nobody", []*x509.Certificate{nameless}, namelessKey, 0o600, status.BadRequest, "names no host"},
		{"no certificate", nil, key, 0o600, status.BadRequest, "gateway.tls"},
	} {
		dir := t.TempDir()
		chain, private := certstest.PEM(t, c.key, c.chain...)
		certstest.Write(t, dir+"/cert.pem", chain)
		certstest.Write(t, dir+"/key.pem", private)
		if err := os.Chmod(dir+"/key.pem", c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := readPair(Pair{dir + "/cert.pem", dir + "/key.pem", "gateway.tls.cert"})
		if status.Of(err) != c.outcome || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestBoundedAnswers: what an authority sends in one attempt is read up to a bound,
// over all of its answers.
func TestBoundedAnswers(t *testing.T) {
	t.Parallel()
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 1000))
	}))
	defer authority.Close()
	answers := &boundedAnswers{RoundTripper: http.DefaultTransport}
	answers.left.Store(2500)
	for i, want := range []status.Outcome{status.OK, status.OK, status.Upstream} {
		resp, err := (&http.Client{Transport: answers}).Get(authority.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if status.Of(err) != want {
			t.Errorf("answer %d: %v, want %s", i, err, want)
		}
	}
}
