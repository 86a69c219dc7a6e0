package objects

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
func (s *Objects) Open(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.p.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.p.deps.Admission.Leave()
	if o := s.p.openMoved(root); o != nil {
		return o, nil
	}
	s.p.deps.Leases.Acquire(root)
	o, intoRAM := s.p.openFromRAM(root)
	if o == nil {
		var err error
		if o, err = s.p.openStored(root, intoRAM); err != nil {
			if moved := s.p.openMoved(root); moved != nil { // it was moved out meanwhile
				return moved, nil
			}
			return nil, err
		}
	}
	s.p.deps.Uses.Note(root, o.e.Added)
	return o, nil
}

// Inspect is Open for what the node does by itself, such as a proof of its copy: it counts as no use, and the RAM cache
// stays as it is.
func (s *Objects) Inspect(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.p.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.p.deps.Admission.Leave()
	s.p.deps.Leases.Acquire(root)
	return s.p.openStored(root, false)
}

// openStored opens root from a file that is open, or from the backend. The caller has leased root: the object owns the
// lease, and openStored releases it if it fails.
func (p *Opener) openStored(root b3.Root, intoRAM bool) (*Object, error) {
	if o := p.openFromFiles(root, intoRAM); o != nil {
		return o, nil
	}
	o, err := p.open(root, intoRAM)
	if err != nil {
		p.deps.Leases.Release(root)
	}
	return o, err
}

// open opens root from the backend. On success the object owns the caller's
// lease. If intoRAM is set and the object fits, open adds it to the RAM cache.
func (p *Opener) open(root b3.Root, intoRAM bool) (*Object, error) {
	e, ok, err := p.Lookup(root)
	switch {
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", root, err)
	case !ok:
		return nil, meta.NotFound(root)
	case e.Corrupt:
		return nil, meta.Corrupt(root, "it failed a check before")
	case intoRAM && e.Size <= cache.MaxObject:
		h, err := p.loadIntoRAM(&e)
		if err != nil {
			return nil, p.Damaged(e, err)
		}
		return p.ramObject(h), nil
	}
	if p.deps.Files != nil && !meta.Small(e.Size) {
		return p.openIntoFiles(e)
	}
	return p.openEntry(e)
}

// openEntry opens e from the backend, whether or not e is marked corrupt.
func (p *Opener) openEntry(e meta.Entry) (*Object, error) {
	if meta.Small(e.Size) {
		mem, err := p.Load(&e)
		if err != nil {
			return nil, p.Damaged(e, err)
		}
		return &Object{opener: p, e: e, src: mem, reader: mem.Reader()}, nil
	}
	pair, err := p.openPair(e)
	if err != nil {
		return nil, err
	}
	return p.newObject(e, meta.PairSource{Pair: pair, Size: e.Size}, pair.Close), nil
}

// openPair opens the files of the large object e. It returns not_found if e is being
// removed, or was removed meanwhile.
func (p *Opener) openPair(e meta.Entry) (meta.Pair, error) {
	removing := p.deps.Leases.Removing(e.Root)
	pair, err := p.deps.Backend.OpenPair(e)
	if err == nil {
		return pair, nil
	}
	removing = removing || p.deps.Leases.Removing(e.Root)
	if now, ok, getErr := p.deps.Backend.Get(e.Root); removing || getErr == nil && (!ok || !now.SameAs(e)) {
		return pair, meta.NotFound(e.Root)
	}
	return pair, p.Damaged(e, err)
}

func (p *Opener) newObject(e meta.Entry, src b3.Source, closeFiles func()) *Object {
	return &Object{opener: p, e: e, src: src, reader: p.deps.Hash.Reader(e.Root, e.Size, src), closeFiles: closeFiles}
}

// openFromRAM returns root from the RAM cache, or nil. intoRAM reports that the
// object is used often enough to be added to the cache. The caller leases root.
func (p *Opener) openFromRAM(root b3.Root) (o *Object, intoRAM bool) {
	if p.deps.RAM == nil || p.deps.Leases.Removing(root) {
		return nil, false
	}
	h, intoRAM := p.deps.RAM.Get(root)
	if h == nil {
		return nil, intoRAM
	}
	return p.ramObject(h), false
}

func (p *Opener) ramObject(h *cache.InRAM) *Object {
	return &Object{opener: p, e: h.Entry, src: h.Memory, reader: h.Reader}
}

// loadIntoRAM adds e to the RAM cache. The caller leases e. An error is damage,
// or an error of the disk.
func (p *Opener) loadIntoRAM(e *meta.Entry) (*cache.InRAM, error) {
	mem, err := p.Load(e)
	if err != nil {
		return nil, err
	}
	o := p.deps.RAM.Add(*e, mem)
	// If the object was marked corrupt before Add, Drop did not see it.
	if now, ok, err := p.deps.Backend.Get(e.Root); err != nil || !ok || now.Corrupt {
		p.deps.RAM.Drop(e.Root)
	}
	return o, nil
}

// openFromFiles returns root from the cache of open files, or nil. It also
// returns nil when intoRAM is set and the object fits in the RAM cache. The
// caller leases root.
func (p *Opener) openFromFiles(root b3.Root, intoRAM bool) *Object {
	if p.deps.Files == nil || p.deps.Leases.Removing(root) {
		return nil
	}
	o := p.deps.Files.Get(root)
	switch {
	case o == nil:
		return nil
	case intoRAM && o.Entry.Size <= cache.MaxObject:
		p.deps.Files.Release(o)
		return nil
	}
	return p.fileObject(o)
}

func (p *Opener) fileObject(o *cache.Opened) *Object {
	return &Object{opener: p, e: o.Entry, src: o.Src, reader: o.Reader, cached: o}
}

// openIntoFiles opens the large object e and adds it to the cache of open files.
// The caller leases e.
func (p *Opener) openIntoFiles(e meta.Entry) (*Object, error) {
	pair, err := p.openPair(e)
	if err != nil {
		return nil, err
	}
	o := p.deps.Files.Add(e, pair)
	// If the object was marked corrupt before Add, Drop did not see it.
	if now, ok, err := p.deps.Backend.Get(e.Root); err != nil || !ok || now.Corrupt || !now.SameAs(e) {
		p.deps.Files.Drop(e.Root)
	}
	return p.fileObject(o), nil
}

// Drop removes an object that is being removed or was marked corrupt from
// both caches.
func (p *Opener) Drop(root b3.Root) {
	p.deps.RAM.Drop(root)
	p.deps.Files.Drop(root)
}

// Memory returns the verified bytes of root if they are in the RAM cache, and
// nil otherwise. It does not read the disk and counts as a use. The bytes must
// not be changed; they stay readable after the object is deleted.
func (s *Objects) Memory(root b3.Root) []byte {
	if s.p.deps.RAM == nil || s.p.deps.Admission.Enter() != nil {
		return nil
	}
	defer s.p.deps.Admission.Leave()
	if s.p.deps.Leases.Removing(root) {
		return nil
	}
	o := s.p.deps.RAM.Peek(root)
	if o == nil {
		return nil
	}
	s.p.deps.Uses.Note(root, o.Entry.Added)
	return o.Memory.Bytes()
}

// Cached reports whether root is in the RAM cache or its file is open, which proves that the store has it. It does not
// read the disk and counts as a use.
func (s *Objects) Cached(root b3.Root) bool {
	if s.Memory(root) != nil {
		return true
	}
	if s.p.deps.Files == nil || s.p.deps.Admission.Enter() != nil {
		return false
	}
	defer s.p.deps.Admission.Leave()
	if s.p.deps.Leases.Removing(root) {
		return false
	}
	o := s.p.deps.Files.Get(root)
	if o == nil {
		return false
	}
	s.p.deps.Uses.Note(root, o.Entry.Added)
	s.p.deps.Files.Release(o)
	return true
}

// openMoved opens an object that was moved out and is not stored again yet. It returns nil if
// there is none.
func (p *Opener) openMoved(root b3.Root) *Object {
	m := p.deps.Moved.Open(root)
	if m == nil {
		return nil
	}
	p.deps.Leases.Acquire(root)
	return &Object{opener: p, e: m.Entry, src: m.Source, reader: m.Reader, moved: m}
}
