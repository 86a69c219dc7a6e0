package store

import (
	"context"

	"allium/protocols/status"
	"allium/store/meta"
)

// MoveOut takes the file of an open object out of the store instead of copying it. It calls move
// with the path of the file, which has exactly the object's bytes, unverified. move
// renames the file and returns nil, or leaves it and returns an error, which MoveOut
// returns. Then MoveOut removes the object, durably; o can be read on.
//
// MoveOut returns unsupported, before move, for an object that does not have its own file: a small one, or one in RAM
// or in a bucket. It returns conflict while a pin keeps the object or anybody else uses it. If only the removal fails,
// MoveOut logs that: the object is then found to be damaged, and the next put replaces it.
func (s *Store) MoveOut(ctx context.Context, o *Object, move func(path string) error) error {
	return s.giveAway(ctx, o, func(e meta.Entry, path string) error {
		if err := move(path); err != nil {
			return err
		}
		s.logCleanup("remove an object that was moved out", s.backend.RemoveAll(ctx, []meta.Entry{e}))
		return nil
	})
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
func (s *Store) MoveAndRestore(ctx context.Context, o *Object, check, move func(path string) error) error {
	return s.giveAway(ctx, o, func(e meta.Entry, path string) error {
		if err := check(path); err != nil {
			return err
		}
		pair, err := s.backend.OpenPair(e)
		if err != nil {
			return err
		}
		m, err := s.moved.Begin(e, pair, s.hash)
		if err != nil {
			pair.Close()
			return err
		}
		removed := false
		err = s.backend.MoveFile(e, func(path string) error {
			removed = true
			return move(path)
		})
		if removed {
			m.Moved()
		} else {
			m.Kept()
		}
		return err
	})
}

// giveAway calls give with the entry and the file of an object that nothing else keeps or
// uses. Nobody opens the object meanwhile.
func (s *Store) giveAway(ctx context.Context, o *Object, give func(e meta.Entry, path string) error) error {
	root := o.Root()
	if !o.Stored() {
		return status.Errorf(status.Unsupported, "%s is not whole in the store", root)
	}
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	defer s.admission.Leave()
	endRemoval, err := s.leases.RemoveLeased(root)
	if err != nil {
		return err
	}
	defer endRemoval()
	defer s.gc.BeginRemoval()()
	e, err := s.removable(ctx, root)
	if err != nil {
		return err
	}
	if e.Corrupt {
		return meta.Corrupt(root, "it failed a check before")
	}
	path, ok := s.backend.File(e)
	if !ok {
		return meta.NoOwnFile(root)
	}
	return give(e, path)
}
