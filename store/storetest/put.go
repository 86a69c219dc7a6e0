package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

var sizes = []int{0, 1, 4096, b3.GroupSize - 1, b3.GroupSize, b3.GroupSize + 1, 2 * b3.GroupSize, 3*b3.GroupSize + 17,
	1<<20 + 1}

func testBoundaries(t *testing.T, s *store.Store) {
	var bytesIn int64
	for i, size := range sizes {
		p := Bytes(uint64(size), size)
		opt := store.PutOptions{Deferred: i%2 == 1}
		info, err := s.Put(t.Context(), iotest.OneByteReader(bytes.NewReader(p[:min(100, size)])), opt)
		if err != nil || info.Root != b3.Sum(p[:min(100, size)]) {
			t.Fatalf("put of a slow reader: %+v, %v", info, err)
		}
		info, err = s.Put(t.Context(), iotest.DataErrReader(bytes.NewReader(p)), opt)
		if err != nil {
			t.Fatalf("put of %d bytes: %v", size, err)
		}
		if info.Root != b3.Sum(p) || info.Size != int64(size) || info.New != (size > 1) {
			t.Fatalf("put of %d bytes says %+v", size, info)
		}
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		Holds(t, s, p)
		again, err := s.PutBytes(t.Context(), p, store.PutOptions{Expect: info.Root})
		if err != nil || again.New || again.Root != info.Root {
			t.Fatalf("put again of %d bytes says %+v, %v", size, again, err)
		}
		stat, err := s.Stat(t.Context(), info.Root)
		if err != nil || stat.Size != int64(size) || stat.Root != info.Root {
			t.Fatalf("stat of %d bytes says %+v, %v", size, stat, err)
		}
		readRanges(t, s, p)
		bytesIn += int64(size)
	}
	// The slow readers stored objects of 100 bytes, except for those of 0 and 1 bytes, which
	// were whole.
	bytesIn += 100 * int64(len(sizes)-2)
	if got := s.Stats().Bytes; got != bytesIn {
		t.Errorf("%d bytes are counted, want %d", got, bytesIn)
	}
}

// readRanges reads random ranges of the object p, with proofs, and compares them with p.
func readRanges(t *testing.T, s *store.Store, p []byte) {
	t.Helper()
	o, err := s.Open(t.Context(), b3.Sum(p))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	rng := rand.New(rand.NewPCG(1, uint64(len(p))))
	for range 10 {
		from := rng.IntN(len(p) + 1)
		to := from + rng.IntN(len(p)-from+1)
		sec := o.Reader().Section(int64(from), int64(to))
		got, err := io.ReadAll(sec)
		sec.Close()
		if err != nil || !bytes.Equal(got, p[from:to]) {
			t.Fatalf("range %d–%d of %d: %d bytes, %v", from, to, len(p), len(got), err)
		}
	}
}

func testExpect(t *testing.T, s *store.Store) {
	for _, size := range sizes {
		p := Bytes(uint64(size), size)
		wrong := store.PutOptions{Expect: b3.Sum([]byte("something else"))}
		_, err := s.Put(t.Context(), bytes.NewReader(p), wrong)
		Want(t, err, status.BadDigest)
		_, err = s.PutBytes(t.Context(), p, wrong)
		Want(t, err, status.BadDigest)
	}
	wantCount(t, s, 0)
	p := Bytes(1, 3*b3.GroupSize)
	if _, err := s.Put(t.Context(), bytes.NewReader(p), store.PutOptions{Expect: b3.Sum(p)}); err != nil {
		t.Fatal(err)
	}
	Holds(t, s, p)
}

func testSameContentAtOnce(t *testing.T, s *store.Store) {
	for n, size := range []int{4096, 2*b3.GroupSize + 1} {
		p := Bytes(uint64(size), size)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				info, err := s.Put(t.Context(), bytes.NewReader(p), store.PutOptions{Deferred: i%3 == 0})
				if err != nil || info.Root != b3.Sum(p) {
					t.Errorf("put: %+v, %v", info, err)
				}
			})
		}
		wg.Wait()
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		Holds(t, s, p)
		wantCount(t, s, n+1)
	}
}

var errBroken = errors.New("the line is dead")

func testBrokenReader(t *testing.T, s *store.Store) {
	for _, broken := range []error{errBroken, io.ErrUnexpectedEOF, fmt.Errorf("cut: %w", io.EOF)} {
		for _, n := range []int{0, 1, b3.GroupSize, b3.GroupSize + 1, 5 * b3.GroupSize} {
			r := io.MultiReader(bytes.NewReader(Bytes(1, n)), iotest.ErrReader(broken))
			_, err := s.Put(t.Context(), r, store.PutOptions{})
			if !errors.Is(err, broken) {
				t.Fatalf("%v after %d bytes: put says %v", broken, n, err)
			}
		}
	}
	if _, err := s.Put(t.Context(), idle{}, store.PutOptions{}); !errors.Is(err, io.ErrNoProgress) {
		t.Fatalf("a reader that gives nothing: %v", err)
	}
	wantCount(t, s, 0)
}

// idle is a reader that always returns no bytes and no error.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

func testCanceledPut(t *testing.T, s *store.Store) {
	for _, after := range []int{0, b3.GroupSize / 2, 4 * b3.GroupSize} {
		ctx, cancel := context.WithCancel(t.Context())
		r := &cancelAfter{r: bytes.NewReader(Bytes(3, 8*b3.GroupSize)), n: after, cancel: cancel}
		_, err := s.Put(ctx, r, store.PutOptions{})
		Want(t, err, status.Canceled)
		cancel()
	}
	wantCount(t, s, 0)
}

// cancelAfter is a reader that calls cancel at the first read after n bytes.
type cancelAfter struct {
	r      io.Reader
	n      int
	cancel func()
}

func (c *cancelAfter) Read(p []byte) (int, error) {
	if c.n <= 0 {
		c.cancel()
	}
	n, err := c.r.Read(p[:min(len(p), 10_000)])
	c.n -= n
	return n, err
}

func testDeferredAndFlush(t *testing.T, s *store.Store) {
	var all [][]byte
	for i := range 300 {
		p := Bytes(uint64(i), 1+i*97)
		if i%50 == 0 {
			p = Bytes(uint64(i), 3*b3.GroupSize+i)
		}
		all = append(all, p)
		if _, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		Holds(t, s, p)
	}
	wantCount(t, s, len(all))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatalf("flush without a waiting object: %v", err)
	}
}

func testManyDeferredLarge(t *testing.T, s *store.Store) {
	const n = 80 // more than may wait for a flush
	for i := range n {
		if _, err := s.PutBytes(t.Context(), Bytes(uint64(i), b3.GroupSize+1+i),
			store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCount(t, s, n)
	if leases := s.Stats().Leases; leases != 0 {
		t.Errorf("%d leases are left", leases)
	}
}

func testAbsent(t *testing.T, s *store.Store) {
	root := b3.Sum([]byte("nobody put this"))
	_, err := s.Open(t.Context(), root)
	Want(t, err, status.NotFound)
	_, err = s.Stat(t.Context(), root)
	Want(t, err, status.NotFound)
	Want(t, s.Delete(t.Context(), root), status.NotFound)
	Want(t, s.Verify(t.Context(), root), status.NotFound)
	Want(t, s.Pin(t.Context(), root, store.PinOptions{}), status.NotFound)
	Want(t, s.Unpin(t.Context(), root, ""), status.NotFound)
	here := Put(t, s, []byte("somebody put this"))
	has, err := s.Has(t.Context(), []b3.Root{root, here, root})
	if err != nil || !slices.Equal(has, []b3.Presence{b3.Absent, b3.Complete, b3.Absent}) {
		t.Fatalf("has says %v, %v", has, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Open(ctx, here)
	Want(t, err, status.Canceled)
}

func testList(t *testing.T, s *store.Store) {
	want := map[b3.Root]int64{}
	for i := range 700 { // several pages
		p := Bytes(uint64(i), i)
		want[b3.Sum(p)] = int64(i)
		if _, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var last b3.Root
	n := 0
	for info, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 && bytes.Compare(last[:], info.Root[:]) >= 0 {
			t.Fatalf("%s follows %s", info.Root, last)
		}
		if size, ok := want[info.Root]; !ok || size != info.Size {
			t.Fatalf("%+v was not put so", info)
		}
		last = info.Root
		n++
	}
	if n != len(want) {
		t.Fatalf("%d objects are listed, want %d", n, len(want))
	}
	for range s.List(t.Context()) {
		break // a caller that stops early blocks nothing
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range s.List(ctx) {
		Want(t, err, status.Canceled)
	}
}

func testVerify(t *testing.T, s *store.Store) {
	want := map[b3.Root]bool{}
	for _, size := range sizes {
		root := Put(t, s, Bytes(uint64(size), size))
		want[root] = true
		if err := s.Verify(t.Context(), root); err != nil {
			t.Fatalf("verify %d bytes: %v", size, err)
		}
	}
	for root, err := range VerifyAll(t.Context(), s) {
		if err != nil || !want[root] {
			t.Fatalf("verify all: %s: %v", root, err)
		}
		delete(want, root)
	}
	if len(want) > 0 {
		t.Fatalf("%d objects were not verified", len(want))
	}
	if n := s.Stats().Corrupt; n != 0 {
		t.Errorf("%d corrupt objects", n)
	}
}
