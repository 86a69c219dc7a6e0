package storetest

import (
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// testModel compares the store with a map under random operations.
func testModel(t *testing.T, s *store.Store) {
	sizes := []int{0, 5, 4096, b3.GroupSize, b3.GroupSize + 1, 3 * b3.GroupSize}
	contents := make([][]byte, 12)
	for i := range contents {
		contents[i] = Bytes(uint64(i), sizes[i%len(sizes)]+i)
	}
	// All runs share one store, so the model keeps its state from run to run.
	present, pending, pinned := map[b3.Root][]byte{}, map[b3.Root][]byte{}, map[b3.Root]bool{}
	flush := func(t testing.TB) {
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for root, p := range pending {
			present[root] = p
		}
		clear(pending)
	}
	rapid.Check(t, func(r *rapid.T) {
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			p := contents[rapid.IntRange(0, len(contents)-1).Draw(r, "object")]
			root := b3.Sum(p)
			switch rapid.SampledFrom([]string{"put", "defer", "flush", "get", "delete", "pin", "unpin", "list"}).Draw(r,
				"op") {
			case "put":
				Put(t, s, p)
				present[root] = p
				delete(pending, root)
			case "defer":
				if _, err := s.PutBytes(t.Context(), p, store.PutOptions{Deferred: true}); err != nil {
					r.Fatal(err)
				}
				if _, ok := present[root]; !ok {
					pending[root] = p
				}
			case "flush":
				flush(t)
			case "get":
				if _, ok := present[root]; ok {
					Holds(t, s, p)
				} else if _, ok := pending[root]; !ok {
					_, err := s.Open(t.Context(), root)
					Want(t, err, status.NotFound)
				}
			case "delete":
				flush(t)
				err := s.Delete(t.Context(), root)
				switch _, ok := present[root]; {
				case !ok:
					Want(t, err, status.NotFound)
				case pinned[root]:
					Want(t, err, status.Conflict)
				default:
					Want(t, err, status.OK)
					delete(present, root)
				}
			case "pin":
				flush(t)
				err := s.Pin(t.Context(), root, store.PinOptions{})
				if _, ok := present[root]; !ok {
					Want(t, err, status.NotFound)
				} else {
					Want(t, err, status.OK)
					pinned[root] = true
				}
			case "unpin":
				err := s.Unpin(t.Context(), root, "")
				if !pinned[root] {
					Want(t, err, status.NotFound)
				} else {
					Want(t, err, status.OK)
					delete(pinned, root)
				}
			case "list":
				flush(t)
				var bytes int64
				for _, p := range present {
					bytes += int64(len(p))
				}
				wantCount(t, s, len(present))
				for _, root := range Roots(t, s) {
					if _, ok := present[root]; !ok {
						r.Fatalf("%s is listed", root)
					}
				}
				if got := s.Stats().Bytes; got != bytes {
					r.Fatalf("%d bytes are counted, want %d", got, bytes)
				}
			}
		}
	})
}
