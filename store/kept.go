package store

import (
	"allium/protocols/b3"
	"allium/store/cache"
	"allium/store/meta"
)

// openKept returns root if its files are open, unless it is wanted in the hot
// tier and fits. The caller leases root.
func (s *Store) openKept(root b3.Root, wanted bool) *Object {
	if s.openFiles == nil || s.leases.Removing(root) {
		return nil
	}
	o := s.openFiles.Get(root)
	switch {
	case o == nil:
		return nil
	case wanted && o.Entry.Size <= cache.MaxObject:
		s.openFiles.Release(o)
		return nil
	}
	return s.keptOpened(o)
}

func (s *Store) keptOpened(o *cache.Opened) *Object {
	return &Object{s: s, e: o.Entry, src: o.Src, reader: o.Reader, opened: o}
}

// openAndKeep opens e, which is large and the caller leases, so that it stays open.
func (s *Store) openAndKeep(e meta.Entry) (*Object, error) {
	p, err := s.backend.OpenPair(e)
	if err != nil {
		return nil, s.damaged(e, err)
	}
	o := s.openFiles.Add(e, p)
	// Who marked it corrupt in the meantime found nothing to drop.
	if now, ok, err := s.backend.Get(e.Root); err != nil || !ok || now.Corrupt || !now.SameAs(e) {
		s.openFiles.Drop(e.Root)
	}
	return s.keptOpened(o), nil
}
