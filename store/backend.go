package store

import (
	"context"
	"io"
	"sync/atomic"

	"allium/protocols/b3"
)

// entry is what a backend knows of one visible object.
type entry struct {
	root    b3.Root
	size    int64
	corrupt bool // its bytes failed a check; not served until put again
	seg     uint64
	off     int64  // of the body in segment seg; embedded backend, small objects only
	added   second // when the object was stored; kept when its record moves
	used    second // its last use, filled by backend.entries only
}

// sameAs reports whether e and o are one object that was stored once, wherever
// its record has moved since.
func (e entry) sameAs(o entry) bool { return e.root == o.root && e.added == o.added }

// samePlace reports whether the bytes of e and o are the same ones.
func (e entry) samePlace(o entry) bool {
	return e.sameAs(o) && (!small(e.size) || e.seg == o.seg && e.off == o.off)
}

// small reports whether an object of that size is one group, kept whole.
func small(size int64) bool { return size <= b3.GroupSize }

// file is one half of a large object.
type file interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
}

// pair is a large object: plain bytes, and outboard in post-order.
type pair struct {
	data, outboard file
}

// close gives the files up. What was written to them is synced before or lost
// on purpose, so there is no error to look at.
func (p pair) close() {
	_ = p.data.Close()
	_ = p.outboard.Close()
}

// staging is a large object on its way in. Whoever staged it closes its files,
// when publish or discard is through with them.
type staging struct {
	pair
	dataPath, outboardPath string // embedded backend

	// Of a download; used by whoever holds its partial's saving token, and then
	// by publish or discard.
	root   b3.Root
	kept   bool  // save noted it: it is there after a restart
	failed error // sticky: a sync failed, and what is on disk is unknown

	// Of an upload.
	owned   bool // what cannot be published stays, for its owner to try again
	unnamed bool // its name is not durable
}

// backend keeps objects and pins. It is told only what Store has verified, and
// is safe for concurrent use between open and close. put, publish, removeAll
// and mark of one root do not run at once (the roots table sees to that), but for
// publish of an object that two puts staged.
type backend interface {
	// open acquires what the backend needs; when it fails nothing is left open.
	// ctx ends the opening alone.
	open(ctx context.Context) error
	// serve runs the backend's goroutines. When ctx is done it writes what is
	// queued, joins them and returns.
	serve(ctx context.Context)
	// refused has an error when the backend, which is open, finds that it must
	// not go on.
	refused() <-chan error
	// close gives everything back. Nothing is called after it.
	close() error

	// get returns the entry of a visible object.
	get(root b3.Root) (e entry, ok bool, err error)
	// entries appends visible objects from root on, ascending, to page up to
	// its capacity. Fewer means the end.
	entries(root b3.Root, page []entry) ([]entry, error)
	// read returns a small object's bytes, unverified.
	read(e entry) ([]byte, error)
	// openPair opens a large object, unverified. The pair is only read.
	openPair(e entry) (pair, error)

	// put stores a small object. It returns when the object is visible and
	// durable, or, for a deferred put, when it is sure to be by the next flush
	// that succeeds. isNew is false when a whole copy was there. p is not kept.
	// counted is called at most once, before put returns, when totals has begun
	// to count p as pending.
	put(ctx context.Context, root b3.Root, p []byte, deferred bool, counted func()) (isNew bool, err error)
	// stage makes room for a large object. root may be zero when unknown.
	stage(root b3.Root) (*staging, error)
	// publish makes a staged object, which is complete, visible and durable
	// under root; with deferred, by the next flush that succeeds. What cannot be
	// published is discarded. done is called once, when the backend is through
	// with the files and root may be removed.
	publish(ctx context.Context, root b3.Root, size int64, st *staging, deferred bool, done func()) (isNew bool, err error)
	// discard removes what stage made, and what save noted of it.
	discard(st *staging) error

	// resume opens what the last save of root noted; st is nil when there is
	// nothing, and rec and pages are what was noted.
	resume(root b3.Root) (st *staging, rec partialRecord, pages []partialPage, err error)
	// save makes what was written to st durable, then notes rec and pages, those
	// of the bitmap of groups that changed, and sets st.kept.
	save(st *staging, rec partialRecord, pages []partialPage) error
	// partial returns what save noted of root.
	partial(root b3.Root) (rec partialRecord, ok bool, err error)
	// partials appends what save noted from root on, ascending, to page up to
	// its capacity. Fewer means the end.
	partials(root b3.Root, page []partialRecord) ([]partialRecord, error)
	// dropPartial removes what save noted of root, and its files. Nobody uses
	// them.
	dropPartial(root b3.Root) error

	// uploads returns what noteUpload noted of uploads, when the store opens.
	uploads() ([]uploadRecord, error)
	// openUpload opens the files of an upload, the data empty at offset 0, and
	// the outboard when nothing of it is needed: outboard is how many bytes
	// are. Data that is gone is fs.ErrNotExist.
	openUpload(rec uploadRecord, outboard int64) (*staging, error)
	// noteUpload makes the bytes of st durable, when it is not nil, and then
	// notes rec, durably. Of one that is done the files go.
	noteUpload(rec uploadRecord, st *staging) error
	// dropUpload removes what noteUpload noted, and the files.
	dropUpload(id uploadID) error

	// flush returns when every deferred put and publish before it is visible
	// and durable, or the error for which some are not.
	flush(ctx context.Context) error

	// removeAll deletes at most 1,024 visible objects, each given once,
	// durably and with one sync, also where the disk is too full to put. An
	// entry that is gone, or was stored anew, is passed over.
	removeAll(ctx context.Context, es []entry) error
	// touch notes when objects were used last; a crash may forget it. One that is
	// not there is passed over.
	touch(used map[b3.Root]second) error
	// usedAt is the last use of e: when it was added, or touched later.
	usedAt(e entry) (second, error)
	// mark sets or clears an entry's corrupt flag.
	mark(e entry, corrupt bool) error

	// setPin and dropPin are durable; dropPin reports whether there was one.
	setPin(p Pin) error
	dropPin(root b3.Root, label string) (bool, error)
	// pins appends pins from (root, label) on, in order of both, to page up to
	// its capacity. Fewer means the end.
	pins(root b3.Root, label string, page []Pin) ([]Pin, error)

	// totals is the backend's count of visible objects.
	totals() *totals
	// usage is what the backend knows of its files and RAM, without a scan. It is
	// asked only while the store is open.
	usage() Usage
	// failure is the sticky error of the write side, nil when it works.
	failure() error
	// away is why some objects cannot be read for now, nil when all can.
	away() error
}

// totals counts visible objects. The embedded backend writes them down when it
// closes, and counts its index when it opens after anything else.
type totals struct {
	objects, bytes, corrupt atomic.Int64
	large, outboards        atomic.Int64 // bytes of large objects, and of their outboards

	pendingObjects, pendingBytes atomic.Int64 // small ones on their way to a segment, not visible yet
}

// counters are in the order in which they are written down.
func (t *totals) counters() [5]*atomic.Int64 {
	return [...]*atomic.Int64{&t.objects, &t.bytes, &t.corrupt, &t.large, &t.outboards}
}

func (t *totals) add(e entry) { t.replace(nil, []entry{e}) }

func (t *totals) sub(e entry) { t.replace([]entry{e}, nil) }

// replace counts before out and after in. Each counter goes from the old sum to
// the new one at once: what was only moved is never missing from it.
func (t *totals) replace(before, after []entry) {
	var by [5]int64
	for _, e := range before {
		e.count(&by, -1)
	}
	for _, e := range after {
		e.count(&by, 1)
	}
	for i, c := range t.counters() {
		if by[i] != 0 {
			c.Add(by[i])
		}
	}
}

// count adds e to the sums of counters, times n.
func (e entry) count(sums *[5]int64, n int64) {
	sums[0] += n
	sums[1] += n * e.size
	if e.corrupt {
		sums[2] += n
	}
	if !small(e.size) {
		sums[3] += n * e.size
		sums[4] += n * b3.OutboardSize(e.size)
	}
}

// pend counts an object that is on its way in, and settled those that are not
// any more: visible, or not needed.
func (t *totals) pend(size int64) {
	t.pendingObjects.Add(1)
	t.pendingBytes.Add(size)
}

func (t *totals) settled(n GCCount) {
	t.pendingObjects.Add(-n.Objects)
	t.pendingBytes.Add(-n.Bytes)
}

// next is the root after r in key order; ok is false after the last one.
func next(r b3.Root) (b3.Root, bool) {
	for i := len(r) - 1; i >= 0; i-- {
		if r[i]++; r[i] != 0 {
			return r, true
		}
	}
	return r, false
}
