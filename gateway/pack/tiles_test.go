package pack

import (
	"net/http"
	"strings"
	"testing"

	"allium/gateway/pack/tile"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestHotTile: a tile that was asked for twice is read no more, and is still not served where it may not be.
func TestHotTile(t *testing.T) {
	t.Parallel()
	s, objects, h, _ := awaySet(t)
	p := archiveOf(4, "x")
	s.objects.mu.Lock()
	s.objects.here[b3.Sum(p)] = p
	s.objects.mu.Unlock()
	ask := func() (a *recorder, reads int64) {
		t.Helper()
		before := objects.opens.Load()
		a, err := get(t.Context(), h, "world/4/3/3.png")
		if err != nil || a.Code != http.StatusOK || !strings.Contains(a.Body.String(), "x4/3/3") {
			t.Fatalf("%v: %d %s", err, a.Code, a.Body)
		}
		return a, objects.opens.Load() - before
	}
	first, _ := ask()
	for i, want := range []int64{1, 0, 0} {
		a, reads := ask()
		if reads != want || a.Header().Get("ETag") != first.Header().Get("ETag") {
			t.Errorf("time %d: %d reads, %v", i+2, reads, a.Header())
		}
	}
	if a, err := get(t.Context(), h, "world/4/3/3.png", "If-None-Match", first.Header().Get("ETag")); err != nil ||
		a.Code != http.StatusNotModified {
		t.Errorf("%v: %d", err, a.Code)
	}
	if a, err := get(t.Context(), h, "world/4/3/3.jpg"); status.Of(err) != status.BadRequest {
		t.Errorf("another extension: %d, %v", a.Code, err)
	}
	_, now, err := s.enter("world")
	if err != nil {
		t.Fatal(err)
	}
	now.allowed = func() error { return status.Errorf(status.Denied, "denied") }
	now.leave()
	if _, err := get(t.Context(), h, "world/4/3/3.png"); status.Of(err) != status.Denied {
		t.Errorf("what is denied later: %v", err)
	}
}

// TestTileCache: the cache stays within its bytes and its number of tiles, and keeps no bytes of a large one.
func TestTileCache(t *testing.T) {
	t.Parallel()
	c, err := newTileCache(1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := newState(nil, b3.Root{}, &fileSource{}, 0)
	at := func(i int) tileKey { return tileKey{s.self, tile.Coord{Z: 20, X: uint32(i)}} }
	p := make([]byte, 20<<10)
	for i := range 200 {
		for range 2 {
			c.note(at(i), c.get(at(i)), p)
		}
		if c.used > c.budget {
			t.Fatalf("%d tiles have %d bytes of %d", i+1, c.used, c.budget)
		}
	}
	if c.used < c.budget-21<<10 || c.get(at(199)).stored == nil || c.get(at(0)).etag != "" {
		t.Errorf("%d bytes of %d", c.used, c.budget)
	}
	for i := range 2 * maxKnown {
		if etag := c.note(at(i), known{}, nil); etag == "" {
			t.Fatal("no ETag")
		}
	}
	sum := int64(0)
	for _, k := range c.lru.Values() {
		sum += k.weight()
	}
	if sum != c.used || c.lru.Len() > maxKnown {
		t.Errorf("%d tiles have %d bytes, and %d are counted", c.lru.Len(), sum, c.used)
	}
	large := make([]byte, maxHot+1)
	for range 3 {
		c.note(at(1), c.get(at(1)), large)
	}
	if k := c.get(at(1)); k.etag == "" || k.stored != nil {
		t.Errorf("of a large tile %d bytes are kept", len(k.stored))
	}
}
