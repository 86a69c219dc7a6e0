package store

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Ingest is a download of an object whose address is known: proved items go in,
// in any order, readers follow, and Commit makes the object visible. Its methods
// are safe for concurrent use. It must end with Commit or Abort.
//
// It holds a lease from the first byte. Items are written where they will stay;
// a small object waits in RAM.
type Ingest struct {
	s    *Store
	root b3.Root
	size int64 // as claimed, until proved

	st     *staging // nil for a small object
	buf    []byte   // of a small object
	permit func()   // gives back the place

	mu      sync.Mutex
	groups  bitmap
	parents bitmap
	proved  bool          // size
	state   ingestState   // only moves forward
	err     error         // why it was aborted
	changed chan struct{} // closed when a group arrives or the state changes; nil while nobody waits
	users   int           // of the files: the ingest until it ends, writes, the backend, open readers
}

type ingestState uint8

const (
	receiving ingestState = iota
	committing
	committed
	aborted
)

// Ingest begins the download of root, of which it is claimed that it has size
// bytes: nothing is allocated in proportion. One ingest of an object runs at a
// time; a second is refused with conflict. It waits for one of Config.Ingests
// places, as long as ctx lets it.
func (s *Store) Ingest(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	if size < 0 || size > b3.MaxSize {
		return nil, status.Errorf(status.Upstream, "store: %s cannot have %d bytes", root, size)
	}
	if err := s.claim(root); err != nil {
		return nil, err
	}
	in, err := s.begin(ctx, root, size)
	if err != nil {
		s.unclaim(root)
	}
	return in, err
}

// claim reserves root for one ingest.
func (s *Store) claim(root b3.Root) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.running[root]; ok {
		return status.Errorf(status.Conflict, "store: %s is being downloaded already; wait for it or follow it", root)
	}
	s.running[root] = struct{}{}
	return nil
}

func (s *Store) unclaim(root b3.Root) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, root)
}

func (s *Store) begin(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	permit, err := s.ingests.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("store: ingest %s: %w", root, err)
	}
	in := &Ingest{s: s, root: root, size: size, users: 1}
	if small(size) {
		err = s.enter()
		if err == nil {
			s.leave()
			in.buf = make([]byte, size)
		}
	} else {
		in.st, err = s.stage(root)
	}
	if err != nil {
		permit()
		return nil, err
	}
	s.roots.acquire(root)
	in.permit = permit
	return in, nil
}

// Root is the address of the object.
func (in *Ingest) Root() b3.Root { return in.root }

// Size is the object's size in bytes, and whether that is proved.
func (in *Ingest) Size() (size int64, proved bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.size, in.proved
}

// Write stores one proved item of this object, walked with this size; another
// one is bad_request. An item may come twice. no_space leaves the ingest as it
// was.
func (in *Ingest) Write(p b3.Proved) error {
	if !p.Valid() || p.Root() != in.root || p.Size() != in.size {
		return status.Errorf(status.BadRequest, "store: ingest %s of %d bytes: got an item of %s of %d bytes", in.root, in.size, p.Root(), p.Size())
	}
	if err := in.use(); err != nil {
		return err
	}
	defer in.unuse()
	if err := in.write(p); err != nil {
		return fmt.Errorf("store: ingest %s: %w", in.root, err)
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if p.IsParent() {
		in.parents.add(p.Node())
	} else {
		in.groups.add(p.Group())
		in.wake()
	}
	in.proved = in.proved || p.SizeProved()
	return nil
}

// use keeps the files open for one write, or returns why no more are taken.
func (in *Ingest) use() error {
	if err := in.s.stopping(); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.over(); err != nil {
		return err
	}
	in.users++
	return nil
}

// over returns why the ingest ended, nil while it runs. mu is held.
func (in *Ingest) over() error {
	switch in.state {
	case receiving:
		return nil
	case aborted:
		return in.err
	}
	return status.Errorf(status.Conflict, "store: the ingest of %s is committed", in.root)
}

// write puts the bytes of p in their place. Readers look at a place only after
// Write has noted it.
func (in *Ingest) write(p b3.Proved) (err error) {
	switch {
	case in.st == nil:
		in.mu.Lock()
		copy(in.buf, p.Data())
		in.mu.Unlock()
	case p.IsParent():
		_, err = in.st.outboard.WriteAt(p.Data(), p.Node()*b3.ParentSize)
	default:
		_, err = in.st.data.WriteAt(p.Data(), p.Offset())
	}
	return err
}

// wake tells those who wait. mu is held.
func (in *Ingest) wake() {
	if in.changed != nil {
		close(in.changed)
		in.changed = nil
	}
}

// Wait returns when group g can be read, or with the error of whatever ended
// the wait first: ctx, Abort, or the store. A group past the size is bad_range.
func (in *Ingest) Wait(ctx context.Context, g int64) error {
	if g < 0 || g >= b3.Groups(in.size) {
		return status.Errorf(status.BadRange, "store: %s has no group %d", in.root, g)
	}
	for {
		changed, err := in.poll(g)
		if changed == nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-in.s.stop:
			return ErrDraining
		}
	}
}

// poll returns nil, nil when group g is there, and what to wait for while it
// may come.
func (in *Ingest) poll(g int64) (<-chan struct{}, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state == aborted {
		return nil, in.err
	}
	if in.groups.has(g) {
		return nil, nil
	}
	if in.changed == nil {
		in.changed = make(chan struct{})
	}
	return in.changed, nil
}

// Open returns the object as far as it has arrived, proved again on every read:
// group g after Wait for it, anything else is not_found. It stays readable after
// Commit. The caller closes it.
func (in *Ingest) Open() (*Object, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.state == aborted {
		return nil, in.err
	}
	if in.users == 0 {
		return nil, status.Errorf(status.Conflict, "store: the ingest of %s is committed; open the object", in.root)
	}
	in.users++
	in.s.roots.acquire(in.root)
	return newObject(in.s, entry{root: in.root, size: in.size}, partialSource{in}, in.unuse), nil
}

// unuse gives up the files; the last one closes them.
func (in *Ingest) unuse() {
	in.mu.Lock()
	in.users--
	last := in.users == 0
	in.mu.Unlock()
	if last && in.st != nil {
		in.st.close()
	}
}

// Commit makes the object visible, and durable unless deferred. While an item
// is missing, or the size is not proved, it is refused with precondition and the
// ingest goes on. Any other error ends the ingest.
func (in *Ingest) Commit(ctx context.Context, deferred bool) (Info, error) {
	if err := in.finish(); err != nil {
		return Info{}, err
	}
	info, err := in.commit(ctx, deferred)
	if err != nil {
		err = fmt.Errorf("store: ingest %s: %w", in.root, err)
		in.end(aborted, err)
		return Info{}, err
	}
	in.end(committed, nil)
	return info, nil
}

// finish stops the ingest from taking items when it has them all.
func (in *Ingest) finish() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.over(); err != nil {
		return err
	}
	groups := b3.Groups(in.size)
	if in.groups.count() < groups || in.parents.count() < groups-1 || !in.proved {
		return status.Errorf(status.Precondition, "store: ingest %s: %d of %d groups and %d of %d parents have arrived, size proved: %t",
			in.root, in.groups.count(), groups, in.parents.count(), groups-1, in.proved)
	}
	in.state = committing
	in.users++ // commit ends it
	return nil
}

func (in *Ingest) commit(ctx context.Context, deferred bool) (Info, error) {
	if in.st == nil {
		defer in.unuse()
		return in.s.commitSmall(ctx, in.root, in.buf, deferred)
	}
	return in.s.commitLarge(ctx, in.root, in.size, in.st, deferred, in.unuse)
}

// Abort ends the ingest and removes what arrived; readers that wait get err,
// canceled when it is nil. After Commit or Abort it does nothing.
func (in *Ingest) Abort(err error) {
	if err == nil {
		err = status.Errorf(status.Canceled, "store: the download of %s was given up", in.root)
	}
	in.mu.Lock()
	ours := in.state == receiving
	if ours {
		in.state, in.err = aborted, err
	}
	in.mu.Unlock()
	if !ours {
		return
	}
	if in.st != nil {
		in.s.discard(in.st)
	}
	in.end(aborted, err)
}

// end settles the state, wakes those who wait and gives everything back.
func (in *Ingest) end(state ingestState, err error) {
	in.mu.Lock()
	in.state, in.err = state, err
	in.wake()
	in.mu.Unlock()
	in.s.unclaim(in.root)
	in.unuse()
	in.s.roots.release(in.root)
	in.permit()
}

// partialSource is an object that is arriving. Only what Write has noted is
// read: a hole of a sparse file is nobody's byte.
type partialSource struct{ in *Ingest }

var errNotArrived = errors.New("it has not arrived yet")

// ReadGroup implements b3.Source.
func (f partialSource) ReadGroup(g int64, p []byte) (int, error) {
	in := f.in
	in.mu.Lock()
	there := in.groups.has(g)
	n := 0
	if there && in.st == nil {
		n = copy(p, in.buf)
	}
	in.mu.Unlock()
	switch {
	case !there:
		return 0, status.Errorf(status.NotFound, "store: group %d of %s: %w", g, in.root, errNotArrived)
	case in.st == nil:
		return n, nil
	}
	return pairSource{in.st.pair, in.size}.ReadGroup(g, p)
}

// ReadParent implements b3.Source.
func (f partialSource) ReadParent(node int64, p *[b3.ParentSize]byte) error {
	in := f.in
	in.mu.Lock()
	there := in.parents.has(node)
	in.mu.Unlock()
	if !there {
		return status.Errorf(status.NotFound, "store: parent %d of %s: %w", node, in.root, errNotArrived)
	}
	return pairSource{in.st.pair, in.size}.ReadParent(node, p)
}
