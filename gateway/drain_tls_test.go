package gateway

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestDrainOverTLS: a download and an upload that are under way when the drain
// begins finish, over both versions of HTTP, and whoever comes then is told.
func TestDrainOverTLS(t *testing.T) {
	t.Parallel()
	for name, h2 := range map[string]bool{"http1": false, "http2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAuthority(t)
			n := start(t, a.withTLS(t))
			base := n.Addrs().Gateway
			gate := make(chan struct{})
			data := bytes.Repeat([]byte("downloaded "), b3.GroupSize)
			slow := n.objects.add(&fakeObject{data: data, gate: gate})
			sent := noise(100_000)

			down, up := make(chan answer, 1), make(chan answer, 1)
			body, feed := io.Pipe()
			ask := func(c *http.Client, method, page string, r io.Reader) (got answer) {
				req, err := http.NewRequestWithContext(t.Context(), method, base+page, r)
				if err != nil {
					return answer{err: err}
				}
				req.Header.Set("Authorization", "Bearer may-put,pin")
				resp, err := c.Do(req)
				if err != nil {
					return answer{err: err}
				}
				defer resp.Body.Close()
				p, err := io.ReadAll(resp.Body)
				return answer{resp, string(p), err}
			}
			early := a.https(t, n, h2)
			go func() { down <- ask(early, "GET", "/o/"+slow.String(), nil) }()
			go func() { up <- ask(early, "POST", "/o", body) }()
			if _, err := feed.Write(sent[:50_000]); err != nil {
				t.Fatal(err)
			}
			testkit.Eventually(t, "two requests, and a part of the body", func() bool {
				return n.InFlight() == 2 && n.sent.wasRead() > 0
			})

			stopped := make(chan error, 1)
			go func() { stopped <- n.Drain(t.Context()) }()
			testkit.Eventually(t, "the drain begins", n.Draining)
			late := a.https(t, n, h2)
			fetch(t, late, "GET", base+"/o/"+slow.String()).problem(t, status.Draining)
			late = a.https(t, n, h2) // the answer ended the connection, or its streams
			if got := fetch(t, late, "GET", base+"/readyz"); got.StatusCode != http.StatusServiceUnavailable ||
				got.Header.Get("X-Reason") != "draining" {
				t.Errorf("readyz: %s %v", got.Status, got.Header)
			}
			if got := fetch(t, late, "GET", base+"/healthz"); got.StatusCode != http.StatusOK {
				t.Errorf("healthz: %s", got.Status)
			}
			close(gate)
			if _, err := feed.Write(sent[50_000:]); err != nil {
				t.Error(err)
			}
			feed.Close()
			if got := <-down; got.err != nil || got.StatusCode != http.StatusOK || got.body != string(data) ||
				(got.ProtoMajor == 2) != h2 {
				t.Errorf("the download: %+v", got.err)
			}
			if got := <-up; got.err != nil || got.StatusCode != http.StatusCreated ||
				got.Header.Get("Location") != "/o/"+b3.Sum(sent).String() {
				t.Errorf("the upload: %v %.200q", got.err, got.body)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	}
}
