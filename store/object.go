package store

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Object is an open object. It holds a lease until Close, so it stays readable
// while others delete. Its methods are safe for concurrent use; no read may be
// under way at Close.
type Object struct {
	s      *Store
	e      entry
	src    b3.Source
	reader *b3.Reader
	files  func()      // gives up the files, nil for none
	kept   *keptObject // whose files they are, nil for none
	part   *partial    // what it is a part of; nil for a whole object
	closed atomic.Bool
}

// Open returns a visible object: not_found when it is not there, corrupt when
// its bytes are known to be damaged. The caller closes it.
func (s *Store) Open(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	s.roots.acquire(root)
	o, wanted := s.openHot(root)
	if o == nil {
		o = s.openKept(root, wanted)
	}
	if o == nil {
		var err error
		if o, err = s.open(root, wanted); err != nil {
			s.roots.release(root)
			return nil, err
		}
	}
	s.used(root, o.e.added)
	return o, nil
}

// admit is enter for an operation that ends with its context.
func (s *Store) admit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.enter()
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
	case e.corrupt:
		return nil, corrupt(root, "it failed a check before")
	case wanted && e.size <= hotMaxObject:
		h, err := s.warm(&e)
		if err != nil {
			return nil, s.damaged(e, err)
		}
		return s.hotOpened(h), nil
	}
	if s.kept != nil && !small(e.size) {
		return s.openAndKeep(e)
	}
	return s.openEntry(e)
}

// openEntry opens e whatever its flag says.
func (s *Store) openEntry(e entry) (*Object, error) {
	if small(e.size) {
		mem, err := s.load(&e)
		if err != nil {
			return nil, s.damaged(e, err)
		}
		return &Object{s: s, e: e, src: mem, reader: mem.Reader()}, nil
	}
	p, err := s.backend.openPair(e)
	if err != nil {
		return nil, s.damaged(e, err)
	}
	return newObject(s, e, pairSource{p, e.size}, p.close), nil
}

func newObject(s *Store, e entry, src b3.Source, files func()) *Object {
	return &Object{s: s, e: e, src: src, reader: b3.NewReader(e.root, e.size, src), files: files}
}

// Root is the object's address.
func (o *Object) Root() b3.Root { return o.e.root }

// Size is the object's size in bytes; of an ingest that is still running, the
// size that was claimed.
func (o *Object) Size() int64 { return o.e.size }

// Source is the object's raw storage: whoever reads it verifies.
func (o *Object) Source() b3.Source { return o.src }

// Reader reads the object and proves every byte. An error of it goes to Failed.
func (o *Object) Reader() *b3.Reader { return o.reader }

// Failed takes the error that a read of the object ended with. When it says
// that the stored bytes are wrong, the object is marked corrupt and counted,
// and the error returned says what to do. Any other error is returned as it is.
func (o *Object) Failed(err error) error {
	if o.part != nil {
		return o.part.failed(err)
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
	if o.files != nil {
		o.files()
	}
	if o.kept != nil {
		o.s.kept.release(o.kept)
	}
	o.s.roots.release(o.e.root)
	return nil
}

// damage is what is wrong with stored bytes, as the label of a metric.
type damage string

func (d damage) Error() string { return "reason: " + string(d) }

// Status is corrupt.
func (d damage) Status() status.Outcome { return status.Corrupt }

// damaged turns an error of reading e, which the caller leases, into the one
// for the user. Damage is counted and e is marked, so that the next put
// replaces it. A disk that cannot read is counted and not marked: it may yet.
func (s *Store) damaged(e entry, err error) error {
	var why damage
	switch {
	case errors.As(err, &why):
	case errors.Is(err, b3.ErrCorrupt):
		why = "digest"
	case status.Of(err) == status.Corrupt:
		s.metrics.integrity.WithLabelValues("io").Inc()
		return fmt.Errorf("store: read %s: %w", e.root, err)
	default:
		return fmt.Errorf("store: read %s: %w", e.root, err)
	}
	s.metrics.integrity.WithLabelValues(string(why)).Inc()
	if s.roots.mark(e.root) {
		defer s.roots.unmark(e.root)
		s.report("mark corrupt", s.backend.mark(e, true))
		s.leaving(e.root)
	}
	s.log.Error("a stored object is damaged and is not served", "root", e.root, "reason", string(why))
	s.tell(e.root)
	return corrupt(e.root, why.Error())
}

// leaving forgets what RAM and open files have of an object that is being
// removed or was marked.
func (s *Store) leaving(root b3.Root) {
	s.hot.drop(root)
	s.kept.drop(root)
}

// pairSource is a large object. The files stay behind a named field, so that no
// sendfile can pass the verification by.
type pairSource struct {
	p    pair
	size int64
}

// ReadGroup implements b3.Source.
func (f pairSource) ReadGroup(g int64, p []byte) (int, error) {
	at := g * b3.GroupSize
	n, err := f.p.data.ReadAt(p[:min(int64(len(p)), f.size-at)], at)
	return n, readError(err)
}

// ReadParent implements b3.Source.
func (f pairSource) ReadParent(node int64, p *[b3.ParentSize]byte) error {
	if n, err := f.p.outboard.ReadAt(p[:], node*b3.ParentSize); n < len(p) {
		return readError(err)
	}
	return nil
}
