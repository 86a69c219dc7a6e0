// Package moved keeps objects whose file was moved out of the store, until the store has
// copied them back.
//
// The output of a get can be the store's own file, renamed. The object is then removed from
// the store, read from the moved file, and stored again from there in the background, one
// object at a time. The new owner of a file may change it: so every read is verified, and a
// changed file is not copied.
//
// [Table.Begin] registers an object before its file is moved. [Object.Moved] says that the
// file was moved, [Object.Kept] that it was not. [Table.Run] copies.
package moved

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// MaxObjects is the maximum number of objects that are moved out and not stored again yet. Each has two open files.
const MaxObjects = 8

// Deps holds the dependencies of a Table. Metrics may be nil.
type Deps struct {
	env.Env

	// Put stores size bytes of r durably as the object root.
	Put func(ctx context.Context, r io.Reader, root b3.Root, size int64) error
}

// Table holds the objects that were moved out. Its methods are safe for concurrent use.
type Table struct {
	deps   Deps
	gate   *limits.Gate           // one place for each object
	queue  chan *Object           // moved out, waiting to be copied
	ended  *prometheus.CounterVec // label: result
	active atomic.Int64           // number of objects; spares the lock while it is 0

	mu      sync.Mutex // lock: metadata
	objects map[b3.Root]*Object
	closed  bool // no object is added any more
}

// Object is one object that was moved out.
type Object struct {
	Entry  meta.Entry
	Source b3.Source // the moved file, and the outboard; unverified
	Reader *b3.Reader

	t    *Table
	pair meta.Pair
	stop atomic.Pointer[string] // the result with which the copy ends early; nil: it goes on
	done chan struct{}          // closed when the object is stored again, or will not be

	users int // open objects, and the copy itself; Table.mu guards it
}

// Results of a copy, as the label of a metric.
const (
	restored    = "restored"
	changedFile = "changed"  // the new owner of the file changed it
	noSpace     = "no_space" // the store has no space, or the quota is used up
	canceled    = "canceled" // the object was deleted, or the store closes
	failed      = "failed"
)

// New returns an empty table.
func New(deps Deps) *Table {
	deps.Env.SetDefaults()
	t := &Table{
		deps: deps,
		gate: deps.Limits.NewGate(limits.Spec{
			Name: "store.restores", Path: "get → objects copied back from an output",
			Policy: "the output is copied from the store",
		}, MaxObjects, 0),
		queue: make(chan *Object, MaxObjects), // bound: the gate
		ended: env.CounterVec("store_restores_total",
			"Objects whose file became the output of a get, by what became of the store's new copy: restored, "+
				"changed (the file was changed first), no_space, canceled (deleted, or the node stopped), failed.",
			"result"),
		objects: map[b3.Root]*Object{},
	}
	env.Values(t.ended, restored, changedFile, noSpace, canceled, failed)
	env.MustRegister(deps.Metrics, t.ended)
	return t
}

// Len returns the number of objects.
func (t *Table) Len() int { return int(t.active.Load()) }

// Begin registers an object whose file is about to be moved. The table owns the pair from then on, and not if Begin
// fails. Call [Object.Moved] or [Object.Kept] next. It returns busy when [MaxObjects] are moved out.
func (t *Table) Begin(e meta.Entry, pair meta.Pair, hash *b3.HashQueue) (*Object, error) {
	if err := t.gate.Enter(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.objects[e.Root] != nil {
		t.gate.Leave()
		return nil, status.Errorf(status.Conflict, "%s is being restored, or the store closes", e.Root)
	}
	src := meta.PairSource{Pair: pair, Size: e.Size}
	o := &Object{
		Entry: e, Source: src, Reader: hash.Reader(e.Root, e.Size, src),
		t: t, pair: pair, done: make(chan struct{}), users: 1,
	}
	t.objects[e.Root] = o
	t.active.Add(1)
	return o, nil
}

// Moved lets the store copy the object back.
func (o *Object) Moved() { o.t.queue <- o } // does not block: the gate bounds the objects

// Kept forgets the object: its file was not moved.
func (o *Object) Kept() { o.t.end(o, canceled) }

// end forgets o, unless that was done before.
func (t *Table) end(o *Object, result string) {
	t.mu.Lock()
	known := t.objects[o.Entry.Root] == o
	if known {
		delete(t.objects, o.Entry.Root)
	}
	t.mu.Unlock()
	if !known {
		return
	}
	t.active.Add(-1)
	t.ended.WithLabelValues(result).Inc()
	close(o.done)
	o.Close()
	t.gate.Leave()
}

// get returns the object root, or nil.
func (t *Table) get(root b3.Root) *Object {
	if t.active.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.objects[root]
}

// Find returns the entry of an object that can be read from its moved file.
func (t *Table) Find(root b3.Root) (e meta.Entry, ok bool) {
	o := t.get(root)
	if o == nil || o.stop.Load() != nil {
		return e, false
	}
	return o.Entry, true
}

// Open returns the object root with its files open until Close, or nil.
func (t *Table) Open(root b3.Root) *Object {
	if t.active.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.objects[root]
	if o == nil || o.stop.Load() != nil {
		return nil
	}
	o.users++
	return o
}

// Close closes the files of o when nobody uses them any more. Call it once for each Open.
func (o *Object) Close() {
	o.t.mu.Lock()
	o.users--
	last := o.users == 0
	o.t.mu.Unlock()
	if last {
		o.pair.Close()
	}
}

// Wait returns when root is not being copied back, or with the error of ctx.
func (t *Table) Wait(ctx context.Context, root b3.Root) error {
	o := t.get(root)
	if o == nil {
		return nil
	}
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cancel ends the copy of root, waits for that, and reports whether there was one.
func (t *Table) Cancel(ctx context.Context, root b3.Root) (found bool, err error) {
	o := t.get(root)
	if o == nil {
		return false, nil
	}
	o.end(canceled)
	return true, t.Wait(ctx, root)
}

// Run copies moved objects back until ctx is done. Then it forgets the others.
func (t *Table) Run(ctx context.Context) {
	defer t.close()
	for {
		select {
		case <-ctx.Done():
			return
		case o := <-t.queue:
			t.end(o, t.restore(ctx, o))
		}
	}
}

// close forgets all objects and takes no more.
func (t *Table) close() {
	t.mu.Lock()
	t.closed = true
	var left []*Object
	for _, o := range t.objects {
		left = append(left, o)
	}
	t.mu.Unlock()
	for _, o := range left {
		t.end(o, canceled)
	}
}

// restore stores the bytes of a moved file again, if they still have its address.
func (t *Table) restore(ctx context.Context, o *Object) (result string) {
	from := &reader{io.NewSectionReader(o.pair.Data, 0, o.Entry.Size), o}
	err := t.deps.Put(ctx, from, o.Entry.Root, o.Entry.Size)
	if err == nil {
		return restored
	}
	result = failed
	switch out, early := status.Of(err), o.stop.Load(); {
	case early != nil:
		result = *early
	case ctx.Err() != nil:
		result = canceled
	case out == status.BadDigest:
		result = changedFile
	case out == status.NoSpace || out == status.Quota:
		result = noSpace
	}
	t.deps.Log.Info("an object whose file was moved to an output is not kept",
		"root", o.Entry.Root, "result", result, "err", err)
	return result
}

// errEnded ends a copy.
var errEnded = errors.New("the restore has ended")

// reader reads a moved file until its copy ends early.
type reader struct {
	io.Reader
	o *Object
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.o.stop.Load() != nil {
		return 0, errEnded
	}
	return r.Reader.Read(p)
}

// end ends the copy early and keeps others from opening the moved file.
func (o *Object) end(result string) { o.stop.CompareAndSwap(nil, &result) }

// ReadFailed takes the error of a read of the moved file. If the file has changed, the
// object is not stored any more.
func (o *Object) ReadFailed(err error) error {
	if err == nil || status.Of(err) != status.Corrupt {
		return err
	}
	o.end(changedFile)
	return status.Errorf(status.NotFound,
		"%s is not stored here any more: the file that it was moved to has been changed; fetch it again", o.Entry.Root)
}
