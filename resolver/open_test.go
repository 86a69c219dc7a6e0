package resolver

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/transfer"
)

const group = b3.GroupSize

func readAll(t *testing.T, c *Content) []byte {
	t.Helper()
	defer c.Close()
	var buf bytes.Buffer
	if _, err := c.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestOpenLocal(t *testing.T) {
	w := newWorld(t, nil)
	for _, size := range []int{0, 1, group, group + 1, 5*group + 17} {
		b := randomBlob(1, size)
		w.local.add(b)
		c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		if c.Size() != int64(size) || c.source != SourceLocal || c.LookupID() == 0 {
			t.Errorf("size %d: got %d from %s, lookup %q", size, c.Size(), c.source, c.LookupID())
		}
		if !bytes.Equal(readAll(t, c), b.data) {
			t.Errorf("size %d: other bytes", size)
		}
	}
	if n := len(w.net.requests("")) + w.finder.count(); n != 0 {
		t.Errorf("%d requests for what is local", n)
	}
}

func TestOpenRemoteWhole(t *testing.T) {
	for _, size := range []int{0, 1, group - 1, group, group + 1, 7*group + 5} {
		w := newWorld(t, nil)
		b := randomBlob(2, size)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		if c.Size() != int64(size) || c.source != SourcePeer || c.LookupID() == 0 {
			t.Errorf("size %d: got %d from %s, lookup %q", size, c.Size(), c.source, c.LookupID())
		}
		if !bytes.Equal(readAll(t, c), b.data) {
			t.Errorf("size %d: other bytes", size)
		}
		w.stop() // joins the flight
		if !w.local.has(b.root) {
			t.Errorf("size %d: not kept", size)
		}
		if n := len(w.net.requests("")); n != 1 {
			t.Errorf("size %d: %d requests", size, n)
		}
	}
}

// TestOpenAbsent: what the caller did not find in the store is not looked for there,
// and a look at the first bytes takes none of them.
func TestOpenAbsent(t *testing.T) {
	w := newWorld(t, nil)
	b := randomBlob(3, 3*group+5)
	looked := make(chan struct{}) // the transfer ends afterwards: a whole object is read from the store
	w.net.peer("a", b).before = func(ctx context.Context, g int64) error {
		if g == 1 {
			select {
			case <-looked:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}
	w.has([]peer.ID{"a"}, b)
	_, absent := w.local.Open(t.Context(), b.root)
	opt := Whole(Sources{})
	opt.Absent = absent
	c, err := w.Open(t.Context(), b.root, opt)
	if err != nil {
		t.Fatal(err)
	}
	if n := w.local.opened(); n != 1 {
		t.Errorf("the store was asked %d times, want once", n)
	}
	close(looked)
	for range 2 {
		if head, err := c.Peek(); err != nil || !bytes.Equal(head, b.data[:group]) {
			t.Fatalf("a look shows %d bytes, %v", len(head), err)
		}
	}
	if !bytes.Equal(readAll(t, c), b.data) {
		t.Error("other bytes after a look")
	}
}

// The first byte does not wait for the last.
func TestOpenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(3, 10*group)
		p := w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		gate := make(chan struct{})
		p.before = func(ctx context.Context, g int64) error {
			if g < 4 {
				return nil
			}
			select {
			case <-gate:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		got := make([]byte, 4*group)
		if _, err := io.ReadFull(c, got); err != nil {
			t.Fatal(err)
		}
		if w.local.has(b.root) {
			t.Fatal("whole before the last group was sent")
		}
		close(gate)
		rest, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(append(got, rest...), b.data) {
			t.Error("other bytes")
		}
	})
}

// The reader has the last byte before the store has committed. When it leaves
// then, the object is kept all the same.
func TestReaderLeavesAtTheEnd(t *testing.T) {
	w := newWorld(t, nil)
	for seed := range uint64(50) {
		b := randomBlob(seed, 3*group)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(readAll(t, c), b.data) {
			t.Fatal("other bytes")
		}
		if _, err := w.Fetch(t.Context(), b.root, FetchOptions{}); err != nil {
			t.Fatal(err)
		}
		if n := len(w.net.requests("")); n != int(seed)+1 {
			t.Fatalf("fetched again: %d requests for %d objects", n, seed+1)
		}
	}
}

func TestManyOpensOneFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(4, 4*group+1)
		w.net.peer("a", b).latency = 50 * time.Millisecond
		w.has([]peer.ID{"a"}, b)
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(readAll(t, c), b.data) {
					t.Error("other bytes")
				}
			})
		}
		wg.Wait()
		if n, m := len(w.net.requests("")), w.finder.count(); n != 1 || m != 1 {
			t.Errorf("%d requests and %d lookups for one object", n, m)
		}
	})
}

func TestOpenRanges(t *testing.T) {
	const size = 36*group + 100
	b := randomBlob(5, size)
	for _, tc := range []struct {
		name       string
		start, end int64
		from, to   int64 // what is wanted; from -1: bad_range
		kept       bool
	}{
		{"inside a group", 10, 20, 10, 20, false},
		{"across groups", group - 1, 3*group + 1, group - 1, 3*group + 1, false},
		{"long", 2 * group, 35 * group, 2 * group, 35 * group, false},
		{"to the end", 35 * group, ToEnd, 35 * group, size, false},
		{"past the end", size - 1, size + 1000, size - 1, size, false},
		{"suffix", -100, ToEnd, size - 100, size, false},
		{"suffix of all", -size - 5, ToEnd, 0, size, true},
		{"first byte to the last", 0, size, 0, size, true},
		{"all groups", group - 1, size - 1, group - 1, size - 1, true},
		{"nothing", 0, 0, 0, 0, false},
		{"behind", size, ToEnd, -1, 0, false},
		{"far behind", size + 10, size + 20, -1, 0, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.net.peer("a", b)
			w.has([]peer.ID{"a"}, b)
			c, err := w.Open(t.Context(), b.root, OpenOptions{Start: tc.start, End: tc.end})
			if tc.from < 0 {
				var re *transfer.RangeError
				if !errors.As(err, &re) || re.Size != size || status.Of(err) != status.BadRange {
					t.Fatalf("got %v, want a RangeError with the size", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.start != tc.from || c.end != tc.to || c.Size() != size {
				t.Errorf("got [%d, %d) of %d", c.start, c.end, c.Size())
			}
			if !bytes.Equal(readAll(t, c), b.data[tc.from:tc.to]) {
				t.Error("other bytes")
			}
			w.stop()
			if w.local.has(b.root) != tc.kept {
				t.Errorf("kept: %t, want %t", !tc.kept, tc.kept)
			}
			for _, req := range w.net.requests("") {
				for _, r := range req.Ranges {
					if r.Start < r.End &&
						(r.Start < tc.from/group*group || min(r.End, size) > (tc.to+group-1)/group*group) {
						t.Errorf("asked for [%d, %d) to read [%d, %d)", r.Start, r.End, tc.from, tc.to)
					}
				}
			}
		})
	}
	for _, bad := range []OpenOptions{{Start: 5, End: 4}, {Start: -1, End: 10}, {Start: 0, End: -2}} {
		w := newWorld(t, nil)
		if _, err := w.Open(t.Context(), b.root, bad); status.Of(err) != status.BadRange {
			t.Errorf("%+v: got %v", bad, err)
		}
	}
}

// What was read once is not asked for again, nor is the size.
func TestPartsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(6, 40*group)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		c, err := w.Open(t.Context(), b.root, OpenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Size() != 40*group || len(readAll(t, c)) != 0 {
			t.Error("not the size alone")
		}
		for i := range 4 {
			c, err := w.Open(t.Context(), b.root, OpenOptions{Start: 10, End: 20})
			if err != nil {
				t.Fatal(err)
			}
			if c.Size() != 40*group || !bytes.Equal(readAll(t, c), b.data[10:20]) {
				t.Error("other bytes")
			}
			if i > 1 {
				time.Sleep(2 * linger) // the transfer has ended, the next one reads what it left
			}
		}
		if n := len(w.net.requests("")); n != 2 {
			t.Errorf("%d requests for one size and one range", n)
		}
		if held, kept := w.local.held(b); held != 2*group || kept != 2 {
			t.Errorf("%d bytes are kept, after %d transfers", held, kept)
		}
	})
}

// A range of an object that is being fetched does not wait for what lies before
// it, and nothing is asked for twice.
func TestRangeJoinsFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(7, 286*group)
		w.net.peer("a", b).before = every(10 * time.Millisecond)
		w.has([]peer.ID{"a"}, b)
		whole, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		for _, start := range []int64{100 * group, int64(len(b.data) - 10)} {
			c, err := w.Open(t.Context(), b.root, OpenOptions{Start: start, End: start + 10})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(readAll(t, c), b.data[start:start+10]) {
				t.Error("other bytes")
			}
			if d := time.Since(begun); d > 100*time.Millisecond {
				t.Errorf("the range at %d took %s", start, d)
			}
		}
		if !bytes.Equal(readAll(t, whole), b.data) {
			t.Error("other bytes")
		}
		w.onlyOnce(t, b)
	})
}

// Many readers of ranges that overlap: every group is asked for once.
func TestManyRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(8, 100*group)
		w.net.peer("a", b).before = every(time.Millisecond)
		w.has([]peer.ID{"a"}, b)
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				start := int64(1+i) * group
				c, err := w.Open(t.Context(), b.root, OpenOptions{Start: start, End: start + 70*group})
				if err != nil {
					t.Error(err)
					return
				}
				if !bytes.Equal(readAll(t, c), b.data[start:start+70*group]) {
					t.Error("other bytes")
				}
			})
		}
		wg.Wait()
		w.onlyOnce(t, b)
		if n := w.asked(b, ""); n != 75 {
			t.Errorf("%d groups were asked for, 75 are wanted", n)
		}
	})
}

func TestDamagedLocalIsFetched(t *testing.T) {
	w := newWorld(t, nil)
	b := randomBlob(9, 3*group)
	w.local.add(b)
	w.local.damaged[b.root] = true
	if _, err := w.Open(t.Context(), b.root, Whole(Sources{})); status.Of(err) != status.Corrupt {
		t.Errorf("got %v, want corrupt", err)
	}
	w.net.peer("a", b)
	c, err := w.Open(t.Context(), b.root, Whole(Sources{Peers: []peer.AddrInfo{{ID: "a"}}}))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readAll(t, c), b.data) || c.source != SourcePeer {
		t.Error("not fetched anew")
	}
}

func TestContentEnds(t *testing.T) {
	w := newWorld(t, nil)
	b := randomBlob(10, group+5)
	w.local.add(b)
	c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
	c.Close()
	c.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errClosed) {
		t.Errorf("after Close: %v", err)
	}
}
