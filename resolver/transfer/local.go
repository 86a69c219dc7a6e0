package transfer

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Local is the node's own store, as transfers need it. Errors carry an outcome
// of protocols/status.
type Local interface {
	// Open returns a whole object, or status.NotFound.
	Open(ctx context.Context, root b3.Root) (b3.Object, error)
	// Has reports, for each of at most 1,024 roots, whether the whole object is
	// stored.
	Has(ctx context.Context, roots []b3.Root) ([]bool, error)
	// Partial returns the proved size of a partly stored object. ok is false if no part is stored.
	Partial(ctx context.Context, root b3.Root) (size int64, ok bool, err error)
	// Ingest begins to store the object root, whose size is proved, or continues
	// its stored part. The caller begins at most one ingest of a root at a time. A
	// peer may put the same object meanwhile: then Ingest begins with nothing.
	Ingest(ctx context.Context, root b3.Root, size int64) (Ingest, error)
	// Lease keeps objects, stored or not yet stored, from being deleted until
	// release is called.
	Lease(roots ...b3.Root) (release func())
}

// Ingest is an object being stored. Commit, Suspend and Abort are called by one
// goroutine, after the last Write; the others by any.
type Ingest interface {
	// Write stores a verified parent or group, in any order and more than once. A
	// group comes after the parents above it.
	Write(p b3.Proved) error
	// Has reports whether group g is stored.
	Has(g int64) bool
	// Missing returns the first run of groups in [from, to) that are not stored.
	// It returns lo == hi when all are.
	Missing(from, to int64) (lo, hi int64)
	// Held returns how many bytes are stored.
	Held() int64
	// Wait returns when group g can be read. Its error is that of the ingest's end
	// or ctx's.
	Wait(ctx context.Context, g int64) error
	// Open returns the object as far as it has arrived. It stays readable after
	// Commit; after Commit Open itself may fail.
	Open() (b3.Object, error)
	// Commit makes the object whole and durable. It fails unless every group was
	// written.
	Commit(ctx context.Context) error
	// Suspend ends the ingest and keeps what has arrived for the next one. It does
	// nothing after Commit, Abort or another Suspend.
	Suspend()
	// Abort ends the ingest and drops what has arrived. It does nothing after
	// Commit, Suspend or another Abort.
	Abort(err error)
}

// NeedsFetch reports whether err, from Open, says that the object has to be fetched.
// A damaged object is fetched again too.
func NeedsFetch(err error) bool {
	o := status.Of(err)
	return o == status.NotFound || o == status.Corrupt
}

// Unmended returns the error of a failed fetch. If the local copy is damaged, the
// error says so first, because that matters more than the failed fetch.
func Unmended(here, fetch error) error {
	if fetch == nil || status.Of(here) != status.Corrupt {
		return fetch
	}
	return fmt.Errorf("%w; fetching it again failed: %w", here, fetch)
}
