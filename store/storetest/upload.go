package storetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
)

// Begin creates an upload with the options o.
func Begin(t testing.TB, s *store.Store, o meta.UploadOptions) resumable.Info {
	t.Helper()
	u, err := s.Uploads().New(t.Context(), resumable.Capability{}, o)
	if err != nil || len(u.ID) != 32 || u.UploadOptions != o || u.Offset != 0 || u.Expires.IsZero() ||
		!u.Root.IsZero() {
		t.Fatalf("a new upload of %+v is %+v, %v", o, u, err)
	}
	return u
}

// Append appends p[from:to] to an upload of p and returns the new state of the upload.
func Append(t testing.TB, s *store.Store, u resumable.Info, p []byte, from, to int) resumable.Info {
	t.Helper()
	now, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, int64(from), bytes.NewReader(p[from:to]))
	if err != nil || now.Offset != int64(to) || (to == len(p)) == now.Root.IsZero() {
		t.Fatalf("bytes %d to %d of %d: %+v, %v", from, to, len(p), now, err)
	}
	return now
}

// WantUploads fails the test unless open uploads are open, with held bytes in all, and there is
// no lease.
func WantUploads(t testing.TB, s *store.Store, open, held int) {
	t.Helper()
	if st := s.Stats(); st.Uploads.Open != int64(open) || st.Uploads.Bytes != int64(held) || st.Leases != 0 {
		t.Fatalf("stats say %+v, want %d uploads of %d bytes", st, open, held)
	}
}

// testUploadSizes: an object that is uploaded in several pieces is the same as in one piece.
func testUploadSizes(t *testing.T, s *store.Store) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i, size := range append(sizes, 256<<10, 40*b3.GroupSize+1) {
		for pieces := range 3 {
			p := Bytes(uint64(1000+3*i+pieces), size)
			o := meta.UploadOptions{Length: int64(size)}
			if pieces > 0 {
				o.Expect = b3.Sum(p)
			}
			u := Begin(t, s, o)
			var at int
			var now resumable.Info
			for cut := range 2 * pieces { // cut at a boundary of groups and anywhere, in turn
				to := at + rng.IntN(size-at+1)
				if cut%2 == 0 {
					to = min(size, max(at, to/b3.GroupSize*b3.GroupSize))
				}
				if to == size {
					break
				}
				now = Append(t, s, u, p, at, to)
				at = to
				if here, err := s.Uploads().Get(t.Context(), u.ID); err != nil || here != now {
					t.Fatalf("%+v is known, %v; want %+v", here, err, now)
				}
				_, err := s.Stat(t.Context(), b3.Sum(p))
				Want(t, err, status.NotFound)
			}
			WantUploads(t, s, 1, at)
			now = Append(t, s, u, p, at, size)
			if now.Root != b3.Sum(p) || !now.New {
				t.Fatalf("%d bytes became %+v", size, now)
			}
			WantUploads(t, s, 0, 0)
			Holds(t, s, p)
			if err := s.Verify(t.Context(), now.Root); err != nil {
				t.Fatal(err)
			}
			readRanges(t, s, p)
			if again := Append(t, s, u, p, size, size); again != now {
				t.Fatalf("%+v is known, want %+v", again, now)
			}
			_, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, int64(size), strings.NewReader("x"))
			Want(t, err, status.BodyCap)
			if err := s.Uploads().Remove(t.Context(), u.ID); err != nil {
				t.Fatal(err)
			}
			_, err = s.Uploads().Get(t.Context(), u.ID)
			Want(t, err, status.Gone)
			Holds(t, s, p)
			if size <= 1 {
				if err := s.Delete(t.Context(), now.Root); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if used := s.Collector().Space().Used; used.Objects != s.Stats().Objects {
		t.Errorf("%+v is used after all, of %+v", used, s.Stats())
	}
}

// testUploadCut: the upload keeps all bytes that were read before the reader failed, at any
// offset.
func testUploadCut(t *testing.T, s *store.Store) {
	for _, size := range []int{b3.GroupSize, 9*b3.GroupSize + 100} {
		p := Bytes(uint64(size), size)
		u := Begin(t, s, meta.UploadOptions{Length: int64(size), Expect: b3.Sum(p), Pin: true, Label: "cut"})
		at := 0
		for _, n := range []int{0, 1, 100, b3.GroupSize - 101, b3.GroupSize, 3*b3.GroupSize + 5} {
			if at+n > size {
				break
			}
			r := io.MultiReader(iotest.HalfReader(bytes.NewReader(p[at:at+n])), iotest.ErrReader(errBroken))
			now, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, int64(at), r)
			if at += n; !errors.Is(err, errBroken) || now.Offset != int64(at) || !now.Root.IsZero() {
				t.Fatalf("after %d bytes of %d: %+v, %v", at, size, now, err)
			}
		}
		wantCount(t, s, 0)
		ctx, cancel := context.WithCancel(t.Context())
		now, err := s.Uploads().Append(ctx, resumable.Capability{}, u.ID, int64(at),
			&cancelAfter{r: bytes.NewReader(p[at:]), n: 10_000, cancel: cancel})
		if at < size-20_000 {
			Want(t, err, status.Canceled)
		}
		cancel()
		now = Append(t, s, u, p, int(now.Offset), size)
		Holds(t, s, p)
		wantPinned(t, s, now.Root, `"cut"`)
		if err := s.Unpin(t.Context(), now.Root, "cut"); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete(t.Context(), now.Root); err != nil {
			t.Fatal(err)
		}
	}
	WantUploads(t, s, 0, 0)
}

// testUploadCutAtEnd: after a reader that fails behind the last byte, an append of no bytes
// completes the upload.
func testUploadCutAtEnd(t *testing.T, s *store.Store) {
	for _, size := range []int{0, 1, b3.GroupSize, 2*b3.GroupSize + 1} {
		p := Bytes(uint64(size), size)
		u := Begin(t, s, meta.UploadOptions{Length: int64(size)})
		r := io.MultiReader(bytes.NewReader(p), iotest.ErrReader(errBroken))
		now, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, 0, r)
		if !errors.Is(err, errBroken) || now.Offset != int64(size) || !now.Root.IsZero() {
			t.Fatalf("cut after %d bytes: %+v, %v", size, now, err)
		}
		_, err = s.Stat(t.Context(), b3.Sum(p))
		Want(t, err, status.NotFound)
		if now = Append(t, s, u, p, size, size); now.Root != b3.Sum(p) || !now.New {
			t.Fatalf("%d bytes became %+v", size, now)
		}
		Holds(t, s, p)
	}
}

// testUploadRefuses: an append with a wrong offset, too many bytes, or bytes that do not match
// the expected address fails. So do bad options and IDs of no upload.
func testUploadRefuses(t *testing.T, s *store.Store) {
	ctx := t.Context()
	for _, o := range []meta.UploadOptions{{Length: -1}, {Length: b3.MaxSize + 1}, {Length: 1, Label: "a\nb"}} {
		_, err := s.Uploads().New(ctx, resumable.Capability{}, o)
		Want(t, err, status.BadRequest)
	}
	for _, id := range []string{"", "x", strings.Repeat("0", 32), strings.Repeat("G", 32), strings.Repeat("0", 33),
		"../" + strings.Repeat("0", 29)} {
		_, err := s.Uploads().Get(ctx, id)
		Want(t, err, status.NotFound)
		_, err = s.Uploads().Append(ctx, resumable.Capability{}, id, 0, idle{})
		Want(t, err, status.NotFound)
		Want(t, s.Uploads().Remove(ctx, id), status.NotFound)
	}
	for _, size := range []int{100, 5*b3.GroupSize + 7} {
		p := Bytes(uint64(size), size)
		u := Begin(t, s, meta.UploadOptions{Length: int64(size)})
		_, err := s.Uploads().Get(ctx, strings.ToUpper(u.ID))
		if strings.ToUpper(u.ID) != u.ID {
			Want(t, err, status.NotFound)
		}
		Append(t, s, u, p, 0, size-10)
		for _, at := range []int{0, size - 11, size - 9, size, size + 1, -1} {
			now, err := s.Uploads().Append(ctx, resumable.Capability{}, u.ID, int64(at), idle{})
			Want(t, err, status.Conflict)
			if now.Offset != int64(size-10) {
				t.Fatalf("told to go on at %d", now.Offset)
			}
		}
		now, err := s.Uploads().Append(ctx, resumable.Capability{}, u.ID, int64(size-10),
			io.MultiReader(bytes.NewReader(p[size-10:]), strings.NewReader("more"), iotest.ErrReader(errBroken)))
		Want(t, err, status.BodyCap)
		if now.Offset != int64(size) || !now.Root.IsZero() {
			t.Fatalf("too much: %+v", now)
		}
		WantUploads(t, s, 1, size)
		Append(t, s, u, p, size, size)
		Holds(t, s, p)

		other := Begin(t, s, meta.UploadOptions{Length: int64(size), Expect: b3.Sum([]byte("others"))})
		Append(t, s, other, p, 0, size/2)
		_, err = s.Uploads().Append(ctx, resumable.Capability{}, other.ID, int64(size/2), bytes.NewReader(p[size/2:]))
		Want(t, err, status.BadDigest)
		_, err = s.Uploads().Get(ctx, other.ID)
		Want(t, err, status.Gone)
		_, err = s.Uploads().Append(ctx, resumable.Capability{}, other.ID, int64(size), idle{})
		Want(t, err, status.Gone)
		WantUploads(t, s, 0, 0)
	}
	wantCount(t, s, 2)
}

// testUploadTwice: concurrent uploads of one object share one stored object. An upload of an
// object that the store has stores nothing. An existing pin stays as it is.
func testUploadTwice(t *testing.T, s *store.Store) {
	for n, size := range []int{1000, 3*b3.GroupSize + 1} {
		p := Bytes(uint64(size), size)
		o := meta.UploadOptions{Length: int64(size), Pin: true, Label: "twice"}
		var wg sync.WaitGroup
		var mu sync.Mutex // lock: leaf
		isNew := 0
		for range 4 {
			u := Begin(t, s, o)
			Append(t, s, u, p, 0, size/3)
			wg.Go(func() {
				rest := bytes.NewReader(p[size/3:])
				now, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, int64(size/3), rest)
				if err != nil || now.Root != b3.Sum(p) {
					t.Errorf("%+v, %v", now, err)
				}
				mu.Lock()
				defer mu.Unlock()
				if now.New {
					isNew++
				}
			})
		}
		wg.Wait()
		if isNew < 1 {
			t.Errorf("%d of the uploads stored it", isNew)
		}
		Holds(t, s, p)
		wantCount(t, s, n+1)
		root := b3.Sum(p)
		if err := s.Pin(t.Context(), root, store.PinOptions{Label: "twice", Recursive: true}); err != nil {
			t.Fatal(err)
		}
		u := Begin(t, s, o)
		if now := Append(t, s, u, p, 0, size); now.New {
			t.Errorf("a stored object was stored again: %+v", now)
		}
		for pin, err := range s.Pins(t.Context()) {
			if err != nil || pin.Root == root && !pin.Recursive {
				t.Errorf("the pin is %+v now, %v", pin, err)
			}
		}
	}
	WantUploads(t, s, 0, 0)
}

// gated is a reader whose first Read closes reached and waits until open is closed.
type gated struct {
	reached, open chan struct{}
	r             io.Reader
}

func (g *gated) Read(p []byte) (int, error) {
	if g.reached != nil {
		close(g.reached)
		g.reached = nil
		<-g.open
	}
	return g.r.Read(p)
}

// testUploadOneWriter: while an append runs, another append and a removal return conflict, and
// Get returns the state.
func testUploadOneWriter(t *testing.T, s *store.Store) {
	p := Bytes(5, 3*b3.GroupSize)
	u := Begin(t, s, meta.UploadOptions{Length: int64(len(p))})
	Append(t, s, u, p, 0, 1000)
	g := &gated{make(chan struct{}), make(chan struct{}), bytes.NewReader(p[1000:])}
	reached := g.reached
	ended := make(chan error, 1)
	go func() {
		_, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, 1000, g)
		ended <- err
	}()
	<-reached
	now, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, 1000, idle{})
	Want(t, err, status.Conflict)
	if now.Offset != 1000 {
		t.Errorf("beside an append: %+v", now)
	}
	Want(t, s.Uploads().Remove(t.Context(), u.ID), status.Conflict)
	if now, err := s.Uploads().Get(t.Context(), u.ID); err != nil || now.Offset != 1000 {
		t.Errorf("beside an append: %+v, %v", now, err)
	}
	close(g.open)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	Holds(t, s, p)
}

// testUploadRemoved: removing an upload frees all space that it used.
func testUploadRemoved(t *testing.T, s *store.Store) {
	before := s.Collector().Space().Used
	for _, size := range []int{100, 5 * b3.GroupSize} {
		p := Bytes(uint64(size), size)
		u := Begin(t, s, meta.UploadOptions{Length: int64(size)})
		if used := s.Collector().Space().Used; used.Bytes < before.Bytes+int64(size) ||
			used.Objects != before.Objects+1 {
			t.Errorf("%+v is used beside an upload of %d bytes", used, size)
		}
		Append(t, s, u, p, 0, size/2)
		if err := s.Uploads().Remove(t.Context(), u.ID); err != nil {
			t.Fatal(err)
		}
		Want(t, s.Uploads().Remove(t.Context(), u.ID), status.Gone)
		_, err := s.Uploads().Append(t.Context(), resumable.Capability{}, u.ID, int64(size/2), idle{})
		Want(t, err, status.Gone)
	}
	if used := s.Collector().Space().Used; used != before {
		t.Errorf("%+v is used, %+v was", used, before)
	}
	WantUploads(t, s, 0, 0)
	wantCount(t, s, 0)
}
