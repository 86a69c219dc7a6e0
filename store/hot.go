package store

import (
	"allium/protocols/b3"
	"allium/store/cache"
	"allium/store/meta"
)

// warm brings e, which the caller leases, into the hot tier. An error is
// damage, or of the disk.
func (s *Store) warm(e *meta.Entry) (*cache.InRAM, error) {
	mem, err := s.load(e)
	if err != nil {
		return nil, err
	}
	o := s.ramCache.Add(*e, mem)
	// Who marked it corrupt in the meantime found nothing to drop.
	if now, ok, err := s.backend.Get(e.Root); err != nil || !ok || now.Corrupt {
		s.ramCache.Drop(e.Root)
	}
	return o, nil
}

// load reads a whole object of at most hotMaxObject bytes and proves it; e is
// brought up to date when it has moved.
func (s *Store) load(e *meta.Entry) (*b3.Memory, error) {
	if meta.Small(e.Size) {
		return s.readCurrent(e)
	}
	p, err := s.backend.OpenPair(*e)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	data, outboard := make([]byte, e.Size), make([]byte, b3.OutboardSize(e.Size))
	if err := meta.ReadFull(p.Data, data); err != nil {
		return nil, err
	}
	if err := meta.ReadFull(p.Outboard, outboard); err != nil {
		return nil, err
	}
	return s.hash.Memory(e.Root, data, outboard)
}

// openHot returns root from the hot tier, nil when it is not there. The caller
// leases root. wanted says that it should be.
func (s *Store) openHot(root b3.Root) (o *Object, wanted bool) {
	if s.ramCache == nil || s.leases.Removing(root) {
		return nil, false
	}
	h, wanted := s.ramCache.Get(root)
	if h == nil {
		return nil, wanted
	}
	return s.hotOpened(h), false
}

func (s *Store) hotOpened(h *cache.InRAM) *Object {
	return &Object{s: s, e: h.Entry, src: h.Memory, reader: h.Reader}
}

// Memory returns the bytes of root where they lie in the hot tier, proved, and
// nil otherwise. It reads no disk and counts as a use. Nobody changes the bytes;
// they stay readable when the object is deleted.
func (s *Store) Memory(root b3.Root) []byte {
	if s.ramCache == nil || s.enter() != nil {
		return nil
	}
	defer s.leave()
	if s.leases.Removing(root) {
		return nil
	}
	o := s.ramCache.Peek(root)
	if o == nil {
		return nil
	}
	s.used(root, o.Entry.Added)
	return o.Memory.Bytes()
}
