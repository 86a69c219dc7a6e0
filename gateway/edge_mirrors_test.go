package gateway

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"allium/gateway/fill"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestAssetLiar: a mirror that lied is not asked for the same file again before a pause, and for others after the
// honest mirrors. A mirror with one bad file serves the others.
func TestAssetLiar(t *testing.T) {
	t.Parallel()
	p := letters(8, 2*b3.GroupSize+1)
	half := newOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/bad") {
			_, _ = w.Write(bytes.ToUpper(p))
			return
		}
		_, _ = w.Write(p)
	})
	honest := newOrigin(t, sending(p))
	file := fill.Stored{Root: b3.Sum(p), Size: int64(len(p))}
	start := func(urls ...string) *edge {
		return startEdge(t, half, func(cfg *fill.Config, d *fill.Deps) {
			src := cfg.Sources["o"]
			src.URL, src.URLs, src.Manifest, src.RequireETag = "", urls, b3.Sum(nil).String(), fill.ETagStrict
			cfg.Sources["o"] = src
			d.Manifests = &fakeManifests{files: map[string]fill.Stored{"bad": file, "good": file}}
		})
	}
	// get fetches a file that the store does not have, and checks how often each origin was asked in all.
	get := func(e *edge, path string, o status.Outcome, halves, honests int64) {
		t.Helper()
		e.fills.evict(file.Root)
		a := do(t, http.MethodGet, e.url(path))
		if o != status.OK {
			a.problem(t, o)
		} else if a.body != string(p) {
			t.Errorf("%s: %s", path, a.Status)
		}
		if half.asked.Load() != halves || honest.asked.Load() != honests {
			t.Errorf("%s: asked %d and %d times, not %d and %d", path, half.asked.Load(), honest.asked.Load(), halves, honests)
		}
	}
	alone := start(half.URL)
	for range 5 {
		get(alone, "bad", status.Corrupt, 1, 0)
	}
	get(alone, "good", status.OK, 2, 0)
	get(alone, "good", status.OK, 3, 0)
	both := start(half.URL, honest.URL)
	get(both, "bad", status.OK, 4, 1)
	get(both, "bad", status.OK, 4, 2)
	get(both, "good", status.OK, 4, 3)
	honest.serve.set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	get(both, "good", status.OK, 5, 4)
	get(both, "bad", status.Upstream, 5, 5)
}
