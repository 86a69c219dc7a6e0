package resolver

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// placed is an output in RAM. It counts the writes of each group.
type placed struct {
	mu    sync.Mutex
	data  []byte
	times map[int64]int
	fail  func(off int64) error // nil: none
	ended bool                  // a write is a mistake now
	late  int
}

func newPlaced(b *blob) *placed {
	return &placed{data: make([]byte, len(b.data)), times: map[int64]int{}}
}

func (o *placed) WriteAt(p []byte, off int64) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		o.late++
	}
	if o.fail != nil {
		if err := o.fail(off); err != nil {
			return 0, err
		}
	}
	o.times[off/group]++
	return copy(o.data[off:], p), nil
}

func (o *placed) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
}

// whole checks that every group was written once and that wrote was told of all bytes.
func (o *placed) whole(t *testing.T, b *blob, told int64) {
	t.Helper()
	if !bytes.Equal(o.data, b.data) {
		t.Error("other bytes")
	}
	for g := range b3.Groups(int64(len(b.data))) {
		if len(b.data) > 0 && o.times[g] != 1 {
			t.Errorf("group %d was written %d times", g, o.times[g])
		}
	}
	if told != int64(len(b.data)) {
		t.Errorf("%d of %d bytes were reported", told, len(b.data))
	}
}

// fillFrom opens an object and lets it fill o.
func fillFrom(ctx context.Context, w *world, b *blob, o *placed) (told int64, err error) {
	c, err := w.Open(ctx, b.root, Whole(Sources{}))
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var mu sync.Mutex
	err = c.Fill(o, func(n int) {
		mu.Lock()
		defer mu.Unlock()
		told += int64(n)
	})
	o.end()
	return told, err
}

// TestFill writes objects that are local, with peers, or partly stored.
func TestFill(t *testing.T) {
	for _, size := range []int{0, 1, group, 3*group + 5, 200*group + 17} {
		for _, place := range []string{"local", "peers", "partly stored"} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				b := randomBlob(700, size)
				if place == "local" {
					w.local.add(b)
				} else {
					for _, id := range []peer.ID{"a", "b", "c"} {
						w.net.peer(id, b).before = every(time.Millisecond)
					}
					w.has([]peer.ID{"a", "b", "c"}, b)
				}
				if place == "partly stored" && size > 100*group {
					w.local.keep(t, b, 5, 90)
				}
				o := newPlaced(b)
				told, err := fillFrom(t.Context(), w, b, o)
				if err != nil {
					t.Fatalf("%d bytes, %s: %v", size, place, err)
				}
				o.whole(t, b, told)
				w.stop()
				if o.late > 0 {
					t.Errorf("%d bytes, %s: %d writes after the end", size, place, o.late)
				}
				if !w.local.has(b.root) {
					t.Errorf("%d bytes, %s: not kept", size, place)
				}
			})
		}
	}
}

// TestFillBesideOthers lets two fills and a reader share a transfer. One output fails, which the other
// two do not notice.
func TestFillBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(701, 150*group+3)
		w.net.peer("a", b).before = every(time.Millisecond)
		w.has([]peer.ID{"a"}, b)
		full := errors.New("no space left on the output's disk")
		bad, good := newPlaced(b), newPlaced(b)
		bad.fail = func(off int64) error {
			if off >= 40*group {
				return full
			}
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := fillFrom(t.Context(), w, b, bad); !errors.Is(err, full) {
				t.Errorf("the full output ended with %v", err)
			}
		})
		wg.Go(func() {
			told, err := fillFrom(t.Context(), w, b, good)
			if err != nil {
				t.Error(err)
			}
			good.whole(t, b, told)
		})
		c, err := w.Open(t.Context(), b.root, Whole(Sources{}))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(readAll(t, c), b.data) {
			t.Error("the reader got other bytes")
		}
		wg.Wait()
		w.stop()
		if bad.late+good.late > 0 {
			t.Errorf("%d and %d writes after the end", bad.late, good.late)
		}
		w.onlyOnce(t, b)
	})
}

// TestFillEnds cancels a fill, and lets the only provider lie: nothing is written afterwards, and
// nothing unproved at all.
func TestFillEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(702, 100*group)
		w.net.peer("a", b).before = every(10 * time.Millisecond)
		w.has([]peer.ID{"a"}, b)
		o := newPlaced(b)
		ctx, cancel := context.WithTimeout(t.Context(), 305*time.Millisecond)
		defer cancel()
		if _, err := fillFrom(ctx, w, b, o); status.Of(err) != status.Timeout {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * linger)
		if o.late > 0 || len(o.times) == 0 {
			t.Errorf("%d groups were written, %d of them after the end", len(o.times), o.late)
		}
		for g := range o.times {
			if !bytes.Equal(o.data[g*group:(g+1)*group], b.data[g*group:(g+1)*group]) {
				t.Errorf("group %d has other bytes", g)
			}
		}
	})
}

// TestSettle: an object that is visible already is leased by its transfer until Settle returns.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		b := randomBlob(703, 5*group)
		w.net.peer("a", b)
		w.has([]peer.ID{"a"}, b)
		end, filled := make(chan struct{}), make(chan error, 1)
		w.local.shown = func() { <-end }
		leases := func() int {
			w.local.mu.Lock()
			defer w.local.mu.Unlock()
			return w.local.leases[b.root]
		}
		go func() { // ends before or after the commit
			_, err := fillFrom(t.Context(), w, b, newPlaced(b))
			filled <- err
		}()
		synctest.Wait()
		if !w.local.has(b.root) || leases() == 0 {
			t.Errorf("visible: %t, %d leases", w.local.has(b.root), leases())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := w.Settle(ctx, b.root); status.Of(err) != status.Timeout {
			t.Errorf("got %v", err)
		}
		close(end)
		if err := w.Settle(t.Context(), b.root); err != nil || leases() != 0 {
			t.Errorf("%d leases are left: %v", leases(), err)
		}
		if err := <-filled; err != nil {
			t.Error(err)
		}
		if err := w.Settle(t.Context(), b.root); err != nil {
			t.Error(err)
		}
	})
}
