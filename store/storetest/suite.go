package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// Suite runs every test of the suite in parallel. open starts a new, empty store for each.
func Suite(t *testing.T, open func(t *testing.T) *store.Store) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, s *store.Store)
	}{
		{"Boundaries", testBoundaries},
		{"Expect", testExpect},
		{"SameContentAtOnce", testSameContentAtOnce},
		{"BrokenReader", testBrokenReader},
		{"CanceledPut", testCanceledPut},
		{"DeferredAndFlush", testDeferredAndFlush},
		{"ManyDeferredLarge", testManyDeferredLarge},
		{"Absent", testAbsent},
		{"List", testList},
		{"DeleteAndLease", testDeleteAndLease},
		{"DeleteWhileReading", testDeleteWhileReading},
		{"DeleteWhilePutting", testDeleteWhilePutting},
		{"Pins", testPins},
		{"Targets", testTargets},
		{"PinLabels", testPinLabels},
		{"RecursivePins", testRecursivePins},
		{"Ingest", testIngest},
		{"IngestRefuses", testIngestRefuses},
		{"IngestFalseSize", testIngestFalseSize},
		{"IngestOnce", testIngestOnce},
		{"IngestApart", testIngestApart},
		{"IngestFollowed", testIngestWaits},
		{"IngestAborted", testIngestAborted},
		{"Suspend", testSuspend},
		{"Forgotten", testForgotten},
		{"UploadSizes", testUploadSizes},
		{"UploadCut", testUploadCut},
		{"UploadCutAtEnd", testUploadCutAtEnd},
		{"UploadRefuses", testUploadRefuses},
		{"UploadTwice", testUploadTwice},
		{"UploadOneWriter", testUploadOneWriter},
		{"UploadRemoved", testUploadRemoved},
		{"Verify", testVerify},
		{"Model", testModel},
		{"Linearizable", testLinearizable},
		{"Vectors", testVectors},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open(t))
		})
	}
}

// Bytes returns n pseudorandom bytes that depend only on seed.
func Bytes(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	p := make([]byte, n)
	_, _ = rand.NewChaCha8(key).Read(p)
	return p
}

// Put stores p durably and returns its address.
func Put(t testing.TB, s *store.Store, p []byte) b3.Root {
	t.Helper()
	info, err := s.PutBytes(t.Context(), p, store.PutOptions{})
	if err != nil {
		t.Fatalf("put of %d bytes: %v", len(p), err)
	}
	return info.Root
}

// Want fails the test unless err has the outcome want.
func Want(t testing.TB, err error, want status.Outcome) {
	t.Helper()
	if got := status.Of(err); got != want {
		t.Fatalf("outcome %s (%v), want %s", got, err, want)
	}
}

// Holds fails the test unless s returns p for the address of p.
func Holds(t testing.TB, s *store.Store, p []byte) {
	t.Helper()
	root := b3.Sum(p)
	got, err := Get(t, s, root)
	if err != nil {
		t.Fatalf("get %s of %d bytes: %v", root, len(p), err)
	}
	if !bytes.Equal(got, p) {
		t.Fatalf("get %s returned other bytes", root)
	}
}

// Get returns all bytes of an object.
func Get(t testing.TB, s *store.Store, root b3.Root) ([]byte, error) {
	t.Helper()
	o, err := s.Open(t.Context(), root)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	p := make([]byte, o.Size())
	n, err := o.Reader().ReadAt(p, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, o.Failed(err)
	}
	if n != len(p) {
		t.Fatalf("read %d of %d bytes of %s without an error", n, len(p), root)
	}
	return p, nil
}

// VerifyAll verifies every object in order of address and yields each with the result. If
// the listing fails or ctx ends, it yields the zero address with the error.
func VerifyAll(ctx context.Context, s *store.Store) iter.Seq2[b3.Root, error] {
	return func(yield func(b3.Root, error) bool) {
		for info, err := range s.List(ctx) {
			if err == nil {
				err = s.Verify(ctx, info.Root)
			}
			if ctx.Err() != nil {
				yield(b3.Root{}, ctx.Err())
				return
			}
			if !yield(info.Root, err) {
				return
			}
		}
	}
}

// Roots returns the addresses that s lists, in its order.
func Roots(t testing.TB, s *store.Store) []b3.Root {
	t.Helper()
	var roots []b3.Root
	for info, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, info.Root)
	}
	return roots
}

// wantCount fails the test unless s both lists and counts n objects.
func wantCount(t testing.TB, s *store.Store, n int) {
	t.Helper()
	if listed, counted := len(Roots(t, s)), s.Stats().Objects; listed != n || counted != int64(n) {
		t.Fatalf("%d objects are listed and %d counted, want %d", listed, counted, n)
	}
}
