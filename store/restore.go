package store

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// maxRestores is how many objects may be moved out and not stored again yet. Each has two
// open files.
const maxRestores = 8

// restores are the objects that were moved out and that the store copies back from their
// files, one at a time. Until then they are read from those files. The new owner of a file
// may change it: so every read is verified, and a changed file is not copied.
type restores struct {
	gate   *limits.Gate           // one place for each object
	queue  chan *restore          // moved out, waiting to be copied
	ended  *prometheus.CounterVec // label: result
	active atomic.Int64           // number of objects; spares the lock while it is 0

	mu      sync.Mutex
	objects map[b3.Root]*restore
	closed  bool // no object is added any more
}

// restore is one object that was moved out.
type restore struct {
	e      meta.Entry
	pair   meta.Pair // the moved file, and the outboard
	reader *b3.Reader
	stop   atomic.Pointer[string] // the result with which the copy ends early; nil: it goes on
	done   chan struct{}          // closed when the object is stored again, or will not be

	users int // open objects, and the restore itself; restores.mu guards it
}

// Results of a restore, as the label of a metric.
const (
	restoreDone     = "restored"
	restoreChanged  = "changed"  // the new owner of the file changed it
	restoreNoSpace  = "no_space" // the store has no space, or the quota is used up
	restoreCanceled = "canceled" // the object was deleted, or the store closes
	restoreFailed   = "failed"
)

func newRestores(registry *limits.Registry, metrics prometheus.Registerer) *restores {
	t := &restores{
		gate: registry.NewGate(limits.Spec{
			Name: "store.restores", Path: "get → objects copied back from an output",
			Policy: "the output is copied from the store",
		}, maxRestores, 0),
		queue: make(chan *restore, maxRestores), // bound: the gate
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "store_restores_total",
			Help: "Objects whose file became the output of a get, by what became of the store's new copy: restored, " +
				"changed (the file was changed first), no_space, canceled (deleted, or the node stopped), failed.",
		}, []string{"result"}),
		objects: map[b3.Root]*restore{},
	}
	if metrics != nil {
		metrics.MustRegister(t.ended)
	}
	return t
}

// MoveAndRestore is MoveOut for a store that is to keep the object: it moves the object's
// file out, and the store then copies the object back from that file, in the background.
// Until then, the object can be opened and is read from the moved file, but it is not
// durable. If somebody changes the file first, the store forgets the object.
//
// MoveAndRestore calls check with the path of the file, and returns an error of it before
// it changes anything. Then it removes the object, durably, and calls move, which renames
// the file. So a crash leaves the store whole, with the object or without it. If move
// fails, MoveAndRestore returns its error and the object is restored nevertheless. Beside
// the errors of MoveOut it returns busy when too many objects are being restored.
func (o *Object) MoveAndRestore(ctx context.Context, check, move func(path string) error) error {
	s := o.s
	return o.giveAway(ctx, func(e meta.Entry, path string) error {
		if err := check(path); err != nil {
			return err
		}
		pair, err := s.backend.OpenPair(e)
		if err != nil {
			return err
		}
		r := &restore{
			e: e, pair: pair, reader: s.hash.Reader(e.Root, e.Size, meta.PairSource{Pair: pair, Size: e.Size}),
			done: make(chan struct{}), users: 1,
		}
		if err := s.restores.add(r); err != nil {
			pair.Close()
			return err
		}
		removed := false
		err = s.backend.MoveFile(e, func(path string) error {
			removed = true
			return move(path)
		})
		if !removed {
			s.restores.end(r, restoreCanceled)
			return err
		}
		s.restores.queue <- r // does not block: see newRestores
		return err
	})
}

// add registers an object that is about to be moved out.
func (t *restores) add(r *restore) error {
	if err := t.gate.Enter(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.objects[r.e.Root] != nil {
		t.gate.Leave()
		return status.Errorf(status.Conflict, "%s is being restored, or the store closes", r.e.Root)
	}
	t.objects[r.e.Root] = r
	t.active.Add(1)
	return nil
}

// end forgets r, unless that was done before.
func (t *restores) end(r *restore, result string) {
	t.mu.Lock()
	known := t.objects[r.e.Root] == r
	if known {
		delete(t.objects, r.e.Root)
	}
	t.mu.Unlock()
	if !known {
		return
	}
	t.active.Add(-1)
	t.ended.WithLabelValues(result).Inc()
	close(r.done)
	t.release(r)
	t.gate.Leave()
}

// get returns the restore of root, or nil.
func (t *restores) get(root b3.Root) *restore {
	if t.active.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.objects[root]
}

// find returns the entry of an object that can be read from its moved file.
func (t *restores) find(root b3.Root) (e meta.Entry, ok bool) {
	r := t.get(root)
	if r == nil || r.stop.Load() != nil {
		return e, false
	}
	return r.e, true
}

// AwaitDurable waits while the store restores an object, which can be opened before it is durable. It returns at once
// for any other object, stored or not, and the error of ctx if that ends first.
func (s *Store) AwaitDurable(ctx context.Context, root b3.Root) error {
	return s.restores.wait(ctx, root)
}

// wait returns when root is not being restored, or with the error of ctx.
func (t *restores) wait(ctx context.Context, root b3.Root) error {
	r := t.get(root)
	if r == nil {
		return nil
	}
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cancel ends the restore of root and reports whether there was one.
func (t *restores) cancel(ctx context.Context, root b3.Root) (canceled bool, err error) {
	r := t.get(root)
	if r == nil {
		return false, nil
	}
	r.end(restoreCanceled)
	return true, t.wait(ctx, root)
}

// acquire returns the restore of root with its files open until release, or nil.
func (t *restores) acquire(root b3.Root) *restore {
	if t.active.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.objects[root]
	if r == nil || r.stop.Load() != nil {
		return nil
	}
	r.users++
	return r
}

// release closes the files of r when nobody uses them any more.
func (t *restores) release(r *restore) {
	t.mu.Lock()
	r.users--
	last := r.users == 0
	t.mu.Unlock()
	if last {
		r.pair.Close()
	}
}

// openMoved opens an object that is being restored, from the file that was moved out. It
// returns nil if there is none.
func (s *Store) openMoved(root b3.Root) *Object {
	r := s.restores.acquire(root)
	if r == nil {
		return nil
	}
	s.leases.Acquire(root)
	return &Object{s: s, e: r.e, src: meta.PairSource{Pair: r.pair, Size: r.e.Size}, reader: r.reader, moved: r}
}

// serveRestores copies moved objects back until ctx is done. Then it forgets the others.
func (s *Store) serveRestores(ctx context.Context) {
	defer s.restores.close()
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-s.restores.queue:
			s.restores.end(r, s.restore(ctx, r))
		}
	}
}

// close forgets all objects and takes no more.
func (t *restores) close() {
	t.mu.Lock()
	t.closed = true
	var left []*restore
	for _, r := range t.objects {
		left = append(left, r)
	}
	t.mu.Unlock()
	for _, r := range left {
		t.end(r, restoreCanceled)
	}
}

// restore stores the bytes of a moved file again, if they still have its address.
func (s *Store) restore(ctx context.Context, r *restore) (result string) {
	from := &restoreReader{io.NewSectionReader(r.pair.Data, 0, r.e.Size), r}
	_, err := s.Put(ctx, from, PutOptions{Expect: r.e.Root, Size: r.e.Size})
	if err == nil {
		return restoreDone
	}
	result = restoreFailed
	switch out, early := status.Of(err), r.stop.Load(); {
	case early != nil:
		result = *early
	case ctx.Err() != nil:
		result = restoreCanceled
	case out == status.BadDigest:
		result = restoreChanged
	case out == status.NoSpace || out == status.Quota:
		result = restoreNoSpace
	}
	s.log.Info("an object whose file was moved to an output is not kept", "root", r.e.Root, "result", result, "err", err)
	return result
}

// errRestoreEnded ends the copy of a restore.
var errRestoreEnded = errors.New("the restore has ended")

// restoreReader reads a moved file until the restore ends early.
type restoreReader struct {
	io.Reader
	r *restore
}

// Read implements io.Reader.
func (f *restoreReader) Read(p []byte) (int, error) {
	if f.r.stop.Load() != nil {
		return 0, errRestoreEnded
	}
	return f.Reader.Read(p)
}

// end ends the copy early and keeps others from opening the moved file.
func (r *restore) end(result string) { r.stop.CompareAndSwap(nil, &result) }

// readFailed takes the error of a read of the moved file. If the file has changed, the
// object is not stored any more.
func (r *restore) readFailed(err error) error {
	if err == nil || status.Of(err) != status.Corrupt {
		return err
	}
	r.end(restoreChanged)
	return status.Errorf(status.NotFound,
		"%s is not stored here any more: the file that it was moved to has been changed; fetch it again", r.e.Root)
}
