package store_test

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// operations counts what a store does with the files below a directory.
type operations struct {
	below string

	mu    sync.Mutex // lock: leaf
	count map[errorfs.OpKind]int
}

func (o *operations) String() string { return "count" }

// MaybeError implements errorfs.Injector. It returns no error.
func (o *operations) MaybeError(op errorfs.Op) error {
	if strings.Contains(op.Path, o.below) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.count[op.Kind]++
	}
	return nil
}

// take returns what was counted since the last take.
func (o *operations) take() map[errorfs.OpKind]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	was := maps.Clone(o.count)
	clear(o.count)
	return was
}

// startCounted starts a store in RAM that counts its operations below a directory.
func startCounted(t *testing.T, below string) (*store.Store, *operations) {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir, cfg.ReserveBytes = "/store", 0
	ops := &operations{below: below, count: map[errorfs.OpKind]int{}}
	s, _ := storetest.Start(t, cfg, store.Deps{FS: errorfs.Wrap(vfs.NewMem(), ops)})
	return s, ops
}

// TestOperations bounds what it takes of the disk to serve 64 MiB and to fetch them in less
// than the time between two checkpoints, so its clock stands still while it works.
func TestOperations(t *testing.T) {
	if testing.Short() {
		t.Skip("hashes 64 MiB twice, in one goroutine")
	}
	synctest.Test(t, testOperations)
}

func testOperations(t *testing.T) {
	const groups = 1024
	from, served := startCounted(t, "/obj/")
	to, fetched := startCounted(t, "/store")
	storetest.Put(t, to, storetest.Bytes(1, 2*b3.GroupSize)) // the first object makes the first segment
	root := storetest.Put(t, from, storetest.Bytes(2, groups*b3.GroupSize))
	o, err := from.Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	in, err := to.Ingest(t.Context(), root, o.Size())
	if err != nil {
		t.Fatal(err)
	}
	w, err := o.Reader().Walk(nil)
	if err != nil {
		t.Fatal(err)
	}
	served.take()
	fetched.take()
	buf := make([]byte, b3.GroupSize)
	for _, more := w.Next(); more; _, more = w.Next() {
		item, err := o.Reader().Fill(w, buf)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := in.Commit(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if n := served.take()[errorfs.OpFileReadAt]; n > groups+40 {
		t.Errorf("serving took %d reads", n)
	}
	n := fetched.take()
	if writes := n[errorfs.OpFileWrite] + n[errorfs.OpFileWriteAt]; writes > groups+60 {
		t.Errorf("fetching took %d writes", writes)
	}
	if syncs := n[errorfs.OpFileSyncData]; syncs > 3 { // data, outboard and log
		t.Errorf("fetching took %d syncs of data", syncs)
	}
}
