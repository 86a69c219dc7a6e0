package store

import (
	"context"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/uses"
)

// noteUse notes that root is used now. known is an earlier use. The caller leases
// root. It returns false if there was no space to note the use.
func (s *Store) noteUse(root b3.Root, known meta.Second) bool {
	s.gc.NoteUse(root)
	return s.uses.Note(root, known)
}

// noteUseOrFlush is noteUse for callers that may wait for the disk: if there is no
// space, it writes the noted uses first.
func (s *Store) noteUseOrFlush(ctx context.Context, root b3.Root, known meta.Second) error {
	if s.noteUse(root, known) {
		return nil
	}
	if err := s.flushUses(ctx); err != nil {
		return err
	}
	s.noteUse(root, known)
	return nil
}

// flushUses writes the noted uses to the backend.
func (s *Store) flushUses(ctx context.Context) error { return s.uses.Flush(ctx, s.writeUses) }

func (s *Store) writeUses(used map[b3.Root]meta.Second) error {
	return s.backend.Touch(used, uses.WriteAfter)
}

// serveUses writes the noted uses from time to time until ctx is done.
func (s *Store) serveUses(ctx context.Context) {
	s.uses.Run(ctx, func(ctx context.Context) { s.logCleanup("note last uses", s.flushUses(ctx)) })
}
