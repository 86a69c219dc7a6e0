package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/cache"
	"allium/store/meta"
	"allium/store/partial"
)

// Object is an open object. It holds a lease until Close, so it stays readable
// while others delete. Its methods are safe for concurrent use; no read may be
// under way at Close.
type Object struct {
	s      *Store
	e      meta.Entry
	src    b3.Source
	reader *b3.Reader
	files  func()        // gives up the files, nil for none
	opened *cache.Opened // whose files they are, nil for none
	part   *partial.View // of one that is not whole; it holds the lease then
	closed atomic.Bool
}

// Open returns a visible object: not_found when it is not there, corrupt when
// its bytes are known to be damaged. The caller closes it.
func (s *Store) Open(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	s.leases.Acquire(root)
	o, wanted := s.openHot(root)
	if o == nil {
		o = s.openKept(root, wanted)
	}
	if o == nil {
		var err error
		if o, err = s.open(root, wanted); err != nil {
			s.leases.Release(root)
			return nil, err
		}
	}
	s.used(root, o.e.Added)
	return o, nil
}

// open opens root, whose lease it takes over when it succeeds. wanted brings it
// into the hot tier if it fits.
func (s *Store) open(root b3.Root, wanted bool) (*Object, error) {
	e, ok, err := s.find(root)
	switch {
	case err != nil:
		return nil, fmt.Errorf("store: open %s: %w", root, err)
	case !ok:
		return nil, notFound(root)
	case e.Corrupt:
		return nil, corrupt(root, "it failed a check before")
	case wanted && e.Size <= cache.MaxObject:
		h, err := s.warm(&e)
		if err != nil {
			return nil, s.damaged(e, err)
		}
		return s.hotOpened(h), nil
	}
	if s.openFiles != nil && !meta.Small(e.Size) {
		return s.openAndKeep(e)
	}
	return s.openEntry(e)
}

// openEntry opens e whatever its flag says.
func (s *Store) openEntry(e meta.Entry) (*Object, error) {
	if meta.Small(e.Size) {
		mem, err := s.load(&e)
		if err != nil {
			return nil, s.damaged(e, err)
		}
		return &Object{s: s, e: e, src: mem, reader: mem.Reader()}, nil
	}
	p, err := s.backend.OpenPair(e)
	if err != nil {
		return nil, s.damaged(e, err)
	}
	return s.newObject(e, meta.PairSource{Pair: p, Size: e.Size}, p.Close), nil
}

func (s *Store) newObject(e meta.Entry, src b3.Source, files func()) *Object {
	return &Object{s: s, e: e, src: src, reader: s.hash.Reader(e.Root, e.Size, src), files: files}
}

// Root is the object's address.
func (o *Object) Root() b3.Root { return o.e.Root }

// Size is the object's size in bytes; of an ingest that is still running, the
// size that was claimed.
func (o *Object) Size() int64 { return o.e.Size }

// Source is the object's raw storage: whoever reads it verifies.
func (o *Object) Source() b3.Source { return o.src }

// Reader reads the object and proves every byte. An error of it goes to Failed.
func (o *Object) Reader() *b3.Reader { return o.reader }

// Failed takes the error that a read of the object ended with. When it says
// that the stored bytes are wrong, the object is marked corrupt and counted,
// and the error returned says what to do. Any other error is returned as it is.
func (o *Object) Failed(err error) error {
	if o.part != nil {
		return o.part.Failed(err)
	}
	if err == nil || status.Of(err) != status.Corrupt {
		return err
	}
	if e := o.s.enter(); e != nil {
		return err
	}
	defer o.s.leave()
	return o.s.damaged(o.e, err)
}

// Close gives up the lease and the files. It is idempotent and always nil.
func (o *Object) Close() error {
	if o.closed.Swap(true) {
		return nil
	}
	if o.part != nil {
		o.part.Close()
		return nil
	}
	if o.files != nil {
		o.files()
	}
	if o.opened != nil {
		o.s.openFiles.Release(o.opened)
	}
	o.s.leases.Release(o.e.Root)
	return nil
}

// damaged turns an error of reading e, which the caller leases, into the one
// for the user. Damage is counted and e is marked, so that the next put
// replaces it. A disk that cannot read is counted and not marked: it may yet.
func (s *Store) damaged(e meta.Entry, err error) error {
	var why meta.Defect
	switch {
	case errors.As(err, &why):
	case errors.Is(err, b3.ErrCorrupt):
		why = "digest"
	case status.Of(err) == status.Corrupt:
		s.metrics.integrity.WithLabelValues("io").Inc()
		return fmt.Errorf("store: read %s: %w", e.Root, err)
	default:
		return fmt.Errorf("store: read %s: %w", e.Root, err)
	}
	s.metrics.integrity.WithLabelValues(string(why)).Inc()
	if s.leases.Mark(e.Root) {
		defer s.leases.Unmark(e.Root)
		s.report("mark corrupt", s.backend.Mark(e, true))
		s.leaving(e.Root)
	}
	s.log.Error("a stored object is damaged and is not served", "root", e.Root, "reason", string(why))
	s.tell(e.Root)
	return corrupt(e.Root, why.Error())
}

// leaving forgets what RAM and open files have of an object that is being
// removed or was marked.
func (s *Store) leaving(root b3.Root) {
	s.ramCache.Drop(root)
	s.openFiles.Drop(root)
}

// Covers reports whether bytes [start, end) of the object are here: of a whole
// object, all that it has.
func (o *Object) Covers(start, end int64) bool {
	if o.part != nil {
		return o.part.Covers(start, end)
	}
	return 0 <= start && start <= end && end <= o.e.Size
}
