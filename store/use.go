package store

import (
	"context"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/uses"
)

// used notes that the object root, which the caller leases, is used now; known is
// an earlier use.
func (s *Store) used(root b3.Root, known meta.Second) bool {
	s.gc.Used(root)
	return s.uses.Note(root, known)
}

// usedOrWait is used for callers that may wait for the disk: it makes room.
func (s *Store) usedOrWait(ctx context.Context, root b3.Root, known meta.Second) error {
	if s.used(root, known) {
		return nil
	}
	if err := s.flushUses(ctx); err != nil {
		return err
	}
	s.used(root, known)
	return nil
}

// flushUses writes the uses that the backend does not know yet.
func (s *Store) flushUses(ctx context.Context) error { return s.uses.Flush(ctx, s.writeUses) }

func (s *Store) writeUses(used map[b3.Root]meta.Second) error {
	return s.backend.Touch(used, uses.Every)
}

// keepUses writes uses until ctx is done.
func (s *Store) keepUses(ctx context.Context) {
	s.uses.Run(ctx, func(ctx context.Context) { s.report("note last uses", s.flushUses(ctx)) })
}
