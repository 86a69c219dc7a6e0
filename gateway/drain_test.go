package gateway

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/server"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// TestDrain: no new work, answers to whoever asks for it, and time for what is
// in flight.
func TestDrain(t *testing.T) {
	t.Parallel()
	n := start(t)
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	fast := n.objects.put([]byte("fast"))
	kept := dialRaw(t, n)
	roundTrip(t, kept, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK")
	first := make(chan answer, 1)
	go func() { first <- do(t, "GET", n.Addrs().Gateway+"/o/"+slow.String()) }()
	testkit.Eventually(t, "one request in flight", func() bool { return n.InFlight() == 1 })

	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Drain(over); status.Of(err) != status.Timeout || !strings.Contains(err.Error(), "1 requests") {
		t.Errorf("%v", err)
	}
	roundTrip(t, kept, "GET /o/"+fast.String()+" HTTP/1.1\r\nHost: x\r\n\r\n", "503")
	do(t, "GET", n.Addrs().Gateway+"/o/"+fast.String()).problem(t, status.Draining)
	do(t, "GET", n.Addrs().Gateway+"/").problem(t, status.Draining)
	do(t, "GET", n.Addrs().Admin+"/api/v1/id").problem(t, status.Draining)
	for _, page := range []string{
		n.Addrs().Gateway + "/healthz", n.Addrs().Admin + "/healthz", n.Addrs().Admin + "/metrics",
		n.Addrs().Admin + "/version", n.Addrs().Admin + "/limits",
	} {
		if a := do(t, "GET", page); a.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", page, a.Status)
		}
	}
	for _, base := range []string{n.Addrs().Gateway, n.Addrs().Admin} {
		a := do(t, "GET", base+"/readyz")
		var page api.Readiness
		if err := json.Unmarshal([]byte(a.body), &page); err != nil {
			t.Fatal(err)
		}
		if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("X-Reason") != "draining" || page.Ready ||
			page.Reads || page.Writes || page.Gates[0].Name != "draining" || len(page.Gates) != 2 {
			t.Errorf("%s %s", a.Status, a.body)
		}
	}
	close(gate)
	if a := <-first; a.body != "slow" {
		t.Errorf("in flight: %s %q", a.Status, a.body)
	}
	for range 2 { // a repeated drain changes nothing
		if err := n.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n.rejected("draining") < 4 {
		t.Errorf("%d rejected", n.rejected("draining"))
	}
}

// TestRunDrains: the end of Run's context lets what is in flight finish.
func TestRunDrains(t *testing.T) {
	t.Parallel()
	n := startWith(t, hooks{params: patiently})
	gate := make(chan struct{})
	slow := n.objects.add(&fakeObject{data: []byte("slow"), gate: gate})
	first := make(chan answer, 1)
	go func() { first <- do(t, "GET", n.Addrs().Gateway+"/o/"+slow.String()) }()
	testkit.Eventually(t, "one request in flight", func() bool { return n.InFlight() == 1 })
	stopped := make(chan error, 1)
	go func() { stopped <- n.stop() }()
	testkit.Eventually(t, "the drain begins", n.Draining)
	close(gate)
	if a := <-first; a.body != "slow" {
		t.Errorf("%s %q", a.Status, a.body)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(n.socket); err == nil {
		t.Error("the socket is still there")
	}
}

// TestRunAborts: what does not finish is cut, and Run returns all the same.
func TestRunAborts(t *testing.T) {
	t.Parallel()
	// The one says why it ends, the other cannot: it is over only after that time.
	n := startWith(t, hooks{params: func(p *server.Params) { p.Drain, p.Abort = 100*time.Millisecond, 5*time.Second }})
	never := n.objects.add(&fakeObject{data: []byte("never"), gate: make(chan struct{})})
	n.node.add.set(func(ctx context.Context, tar io.Reader, _ api.AddOptions, _ api.ProgressFunc) iter.Seq2[api.Added,
		error] {
		return func(yield func(api.Added, error) bool) {
			_, err := io.Copy(io.Discard, tar)
			yield(api.Added{}, err)
		}
	})
	first := make(chan answer, 1)
	go func() { first <- do(t, "GET", n.Addrs().Gateway+"/o/"+never.String()) }()
	c, err := client.New(n.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	upload, w := io.Pipe()
	defer w.Close()
	second := make(chan error, 1)
	go func() {
		for _, err := range c.Add(t.Context(), upload, api.AddOptions{}, nil) {
			second <- err
		}
	}()
	testkit.Eventually(t, "two requests in flight", func() bool { return n.InFlight() == 2 })
	if err := n.stop(); err != nil {
		t.Error(err)
	}
	if a := <-first; a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s %q", a.Status, a.body)
	}
	if err := <-second; status.Of(err) == status.OK {
		t.Error("an upload that was cut ended well")
	}
}
