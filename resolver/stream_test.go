package resolver

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// unstored returns options of a reader that takes what the store has no space for.
func unstored(start, end int64) OpenOptions {
	return OpenOptions{Start: start, End: end, Unstored: true}
}

// TestStream reads objects for which the store has no space: from the start, or from a group on. Each byte is that of
// the object although one provider sends false ones, and at most a window is requested ahead of the reader.
func TestStream(t *testing.T) {
	for name, fill := range map[string]func(*fakeLocal){
		"no group fits":    func(l *fakeLocal) { l.putErr = status.Errorf(status.NoSpace, "full") },
		"five groups fit":  func(l *fakeLocal) { l.space = 5 },
		"fifty groups fit": func(l *fakeLocal) { l.space = 50 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				fill(w.local)
				b := randomBlob(3, 70*group+17)
				w.net.peer("a", b).spoil = func(_ b3.Root, g int64) bool { return g == 20 }
				w.net.peer("b", b)
				w.has([]peer.ID{"a", "b"}, b)
				size := int64(len(b.data))
				for _, r := range [][2]int64{
					{0, ToEnd}, {0, size}, {5*group + 3, 40*group + 1}, {-500, ToEnd}, {size - 1, size}, {0, 1}, {0, 0},
				} {
					c, err := w.Open(t.Context(), b.root, unstored(r[0], r[1]))
					if err != nil {
						t.Fatal(r, err)
					}
					start, end, _ := unstored(r[0], r[1]).Within(b.root, size)
					if c.Size() != size {
						t.Errorf("%v: %d bytes", r, c.Size())
					}
					if !bytes.Equal(readAll(t, c), b.data[start:end]) {
						t.Errorf("%v: other bytes", r)
					}
				}
				if _, err := w.Open(t.Context(), b.root, unstored(size+1, ToEnd)); status.Of(err) != status.BadRange {
					t.Errorf("behind the end: %v", err)
				}
				w.stop()
				if _, held := w.local.held(b); w.local.has(b.root) || w.local.space == 0 && held > 0 {
					t.Errorf("stored: %d", held)
				}
			})
		})
	}
}

// TestStreamAhead opens a content through RAM and does not read on: no more than the window is requested.
func TestStreamAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.local.putErr = status.Errorf(status.NoSpace, "full")
		b := randomBlob(3, 200*group)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		c, err := w.Open(t.Context(), b.root, unstored(0, ToEnd))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := w.asked(b, "")
		if _, err := io.CopyN(io.Discard, c, 100*group); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		// The first request goes out before the store refuses the object, and again from RAM.
		if n := w.asked(b, ""); before > 3*16 || n > 100+3*16+8 {
			t.Errorf("%d groups were requested before and %d after 100 groups were read", before, n)
		}
		out := newPlaced(b)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if c, err = w.Open(t.Context(), b.root, unstored(0, ToEnd)); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		var told int64
		if err := c.Fill(out, func(n int) { told += int64(n) }); err != nil {
			t.Fatal(err)
		}
		out.whole(t, b, told)
	})
}

// TestStreamsBounded lets readers through RAM up to their bound; the next is busy. A reader that must store fails as
// the store does.
func TestStreamsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.local.putErr = status.Errorf(status.NoSpace, "full")
		b := randomBlob(3, 40*group)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		if _, err := w.Open(t.Context(), b.root, Whole(Sources{})); status.Of(err) != status.NoSpace {
			t.Errorf("a reader that stores: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range 32 {
			c, err := w.Open(ctx, b.root, unstored(0, ToEnd))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		if _, err := w.Open(ctx, b.root, unstored(0, ToEnd)); status.Of(err) != status.Busy {
			t.Errorf("one more: %v", err)
		}
		cancel()
		synctest.Wait()
	})
}
