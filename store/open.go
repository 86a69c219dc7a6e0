package store

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/store/cache"
	"allium/store/meta"
)

// Open returns a visible object, which the caller closes. It returns not_found
// when the object is not stored, and corrupt when its bytes are known to be
// damaged.
func (s *Store) Open(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	if o := s.openMoved(root); o != nil {
		return o, nil
	}
	s.leases.Acquire(root)
	o, intoRAM := s.openFromRAM(root)
	if o == nil {
		var err error
		if o, err = s.openStored(root, intoRAM); err != nil {
			if moved := s.openMoved(root); moved != nil { // it was moved out meanwhile
				return moved, nil
			}
			return nil, err
		}
	}
	s.noteUse(root, o.e.Added)
	return o, nil
}

// Inspect is Open for what the node does by itself, such as a proof of its copy: it counts as no use, and the RAM cache
// stays as it is.
func (s *Store) Inspect(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	s.leases.Acquire(root)
	return s.openStored(root, false)
}

// openStored opens root from a file that is open, or from the backend. The caller has leased root: the object owns the
// lease, and openStored releases it if it fails.
func (s *Store) openStored(root b3.Root, intoRAM bool) (*Object, error) {
	if o := s.openFromFiles(root, intoRAM); o != nil {
		return o, nil
	}
	o, err := s.open(root, intoRAM)
	if err != nil {
		s.leases.Release(root)
	}
	return o, err
}

// open opens root from the backend. On success the object owns the caller's
// lease. If intoRAM is set and the object fits, open adds it to the RAM cache.
func (s *Store) open(root b3.Root, intoRAM bool) (*Object, error) {
	e, ok, err := s.find(root)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", root, err)
	case !ok:
		return nil, notFound(root)
	case e.Corrupt:
		return nil, corrupt(root, "it failed a check before")
	case intoRAM && e.Size <= cache.MaxObject:
		h, err := s.loadIntoRAM(&e)
		if err != nil {
			return nil, s.damaged(e, err)
		}
		return s.ramObject(h), nil
	}
	if s.openFiles != nil && !meta.Small(e.Size) {
		return s.openIntoFiles(e)
	}
	return s.openEntry(e)
}

// openEntry opens e from the backend, whether or not e is marked corrupt.
func (s *Store) openEntry(e meta.Entry) (*Object, error) {
	if meta.Small(e.Size) {
		mem, err := s.load(&e)
		if err != nil {
			return nil, s.damaged(e, err)
		}
		return &Object{s: s, e: e, src: mem, reader: mem.Reader()}, nil
	}
	p, err := s.openPair(e)
	if err != nil {
		return nil, err
	}
	return s.newObject(e, meta.PairSource{Pair: p, Size: e.Size}, p.Close), nil
}

// openPair opens the files of the large object e. It returns not_found if e is being
// removed, or was removed meanwhile.
func (s *Store) openPair(e meta.Entry) (meta.Pair, error) {
	removing := s.leases.Removing(e.Root)
	p, err := s.backend.OpenPair(e)
	if err == nil {
		return p, nil
	}
	removing = removing || s.leases.Removing(e.Root)
	if now, ok, getErr := s.backend.Get(e.Root); removing || getErr == nil && (!ok || !now.SameAs(e)) {
		return p, notFound(e.Root)
	}
	return p, s.damaged(e, err)
}

func (s *Store) newObject(e meta.Entry, src b3.Source, closeFiles func()) *Object {
	return &Object{s: s, e: e, src: src, reader: s.hash.Reader(e.Root, e.Size, src), closeFiles: closeFiles}
}

// openFromRAM returns root from the RAM cache, or nil. intoRAM reports that the
// object is used often enough to be added to the cache. The caller leases root.
func (s *Store) openFromRAM(root b3.Root) (o *Object, intoRAM bool) {
	if s.ramCache == nil || s.leases.Removing(root) {
		return nil, false
	}
	h, intoRAM := s.ramCache.Get(root)
	if h == nil {
		return nil, intoRAM
	}
	return s.ramObject(h), false
}

func (s *Store) ramObject(h *cache.InRAM) *Object {
	return &Object{s: s, e: h.Entry, src: h.Memory, reader: h.Reader}
}

// loadIntoRAM adds e to the RAM cache. The caller leases e. An error is damage,
// or an error of the disk.
func (s *Store) loadIntoRAM(e *meta.Entry) (*cache.InRAM, error) {
	mem, err := s.load(e)
	if err != nil {
		return nil, err
	}
	o := s.ramCache.Add(*e, mem)
	// If the object was marked corrupt before Add, dropCached did not see it.
	if now, ok, err := s.backend.Get(e.Root); err != nil || !ok || now.Corrupt {
		s.ramCache.Drop(e.Root)
	}
	return o, nil
}

// openFromFiles returns root from the cache of open files, or nil. It also
// returns nil when intoRAM is set and the object fits in the RAM cache. The
// caller leases root.
func (s *Store) openFromFiles(root b3.Root, intoRAM bool) *Object {
	if s.openFiles == nil || s.leases.Removing(root) {
		return nil
	}
	o := s.openFiles.Get(root)
	switch {
	case o == nil:
		return nil
	case intoRAM && o.Entry.Size <= cache.MaxObject:
		s.openFiles.Release(o)
		return nil
	}
	return s.fileObject(o)
}

func (s *Store) fileObject(o *cache.Opened) *Object {
	return &Object{s: s, e: o.Entry, src: o.Src, reader: o.Reader, cached: o}
}

// openIntoFiles opens the large object e and adds it to the cache of open files.
// The caller leases e.
func (s *Store) openIntoFiles(e meta.Entry) (*Object, error) {
	p, err := s.openPair(e)
	if err != nil {
		return nil, err
	}
	o := s.openFiles.Add(e, p)
	// If the object was marked corrupt before Add, dropCached did not see it.
	if now, ok, err := s.backend.Get(e.Root); err != nil || !ok || now.Corrupt || !now.SameAs(e) {
		s.openFiles.Drop(e.Root)
	}
	return s.fileObject(o), nil
}

// dropCached removes an object that is being removed or was marked corrupt from
// both caches.
func (s *Store) dropCached(root b3.Root) {
	s.ramCache.Drop(root)
	s.openFiles.Drop(root)
}

// Memory returns the verified bytes of root if they are in the RAM cache, and
// nil otherwise. It does not read the disk and counts as a use. The bytes must
// not be changed; they stay readable after the object is deleted.
func (s *Store) Memory(root b3.Root) []byte {
	if s.ramCache == nil || s.admission.Enter() != nil {
		return nil
	}
	defer s.admission.Leave()
	if s.leases.Removing(root) {
		return nil
	}
	o := s.ramCache.Peek(root)
	if o == nil {
		return nil
	}
	s.noteUse(root, o.Entry.Added)
	return o.Memory.Bytes()
}
