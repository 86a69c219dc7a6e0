package gateway

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"allium/gateway/fill"
	"allium/internal/limits"
	"allium/internal/testkit"
	"allium/protocols/b3"
)

// TestRatesBoundContent sends an object, and receives one, at a rate so low that the gateway waits. The
// rate is taken away while it waits, and everything arrives.
func TestRatesBoundContent(t *testing.T) {
	t.Parallel()
	registry := limits.NewRegistry(nil)
	up := limits.NewBandwidth(registry, limits.Spec{Name: "up"})
	down := limits.NewBandwidth(registry, limits.Spec{Name: "down"})
	waits := func(name string) bool {
		for _, i := range registry.Snapshot() {
			if i.Name == name {
				return i.Current > 0
			}
		}
		return false
	}
	o := newOrigin(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(letters(1, 4*b3.GroupSize))
		_ = http.NewResponseController(w).Flush()
		for up.Bounds(true) { // the file arrives, and has no address yet
			time.Sleep(time.Millisecond)
		}
	})
	edge := newEdge(t, map[string]fill.Source{"o": o.source(t)}, nil)
	n := startWith(t, hooks{deps: func(d *Deps) {
		d.Rates, d.Edge.Fills, edge.fills.objects = Rates{up, down}, edge.service, d.Objects.(*fakeObjects)
	}})
	data := bytes.Repeat([]byte("content "), 64<<10)
	root := n.objects.put(data)
	sent := bytes.Repeat([]byte("another "), 64<<10)
	sentRoot := b3.Sum(sent)
	for _, c := range []struct {
		name  string
		bound *limits.Bandwidth
		do    func() answer
		want  string // the body of the answer; empty: any
	}{
		{"up", up, func() answer { return do(t, http.MethodGet, n.Addrs().Gateway+"/b3/"+root.String()) },
			string(data)},
		{"up", up, func() answer { return do(t, http.MethodGet, n.Addrs().Gateway+"/edge/assets/o/a") },
			string(letters(1, 4*b3.GroupSize))},
		{"down", down, func() answer {
			return doBody(t, http.MethodPut, n.Addrs().Gateway+"/o/"+sentRoot.String(), bytes.NewReader(sent),
				"Authorization", "Bearer may-put,pin")
		}, ""},
	} {
		c.bound.Set(1<<10, true)
		answers := make(chan answer, 1) // bound: one request
		go func() {
			defer close(answers)
			answers <- c.do()
		}()
		testkit.Eventually(t, "a wait for the rate", func() bool { return waits(c.name) || len(answers) > 0 })
		if len(answers) > 0 {
			t.Errorf("%s: the answer did not wait for the rate", c.name)
		}
		c.bound.Set(0, true)
		a, ok := <-answers
		if !ok {
			t.Fatalf("%s: no answer", c.name)
		}
		if a.err != nil || a.StatusCode >= http.StatusBadRequest || c.want != "" && a.body != c.want {
			t.Errorf("%s: %d, %v, %d bytes: %.200s", c.name, a.StatusCode, a.err, len(a.body), a.body)
		}
	}
}
