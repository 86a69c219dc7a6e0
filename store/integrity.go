package store

import (
	"context"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/segment/record"
)

// errIntegrity is why the store takes nothing new from its users.
var errIntegrity = status.Errorf(status.NotReady, "the store lost records, and nobody can tell which, so it takes no writes; `allium store damage` lists what is lost: wait until peers have given it back, or accept the loss with `allium store damage --accept`")

// Damage lists what recoveries and checks found that is not what was written,
// oldest first. The memory backend has none.
func (s *Store) Damage() []meta.Damage { return s.backend.Damages().All() }

// OpenDamage reports how much damage is open, and of how much of it nobody can
// tell which records were lost.
func (s *Store) OpenDamage() (open, unknown int) { return s.backend.Damages().Open() }

// Integrity returns not_ready while records are lost of which nobody can tell
// whose they were. Then callers refuse what users add, upload and pin. The store
// itself takes what is repaired and fetched.
func (s *Store) Integrity() error {
	if _, unknown := s.OpenDamage(); unknown > 0 {
		return errIntegrity
	}
	return nil
}

// AcceptDamage ends all open damage: the caller accepts that what is lost is
// lost. It returns what was open.
func (s *Store) AcceptDamage(ctx context.Context) ([]meta.Damage, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	accepted, err := s.backend.Damages().Accept()
	s.gc.Released()
	return accepted, err
}

// SettleDamage ends the open damage whose objects are all back, and returns how many
// entries it ended; see [damage.List.Settle].
func (s *Store) SettleDamage(ctx context.Context, whole bool) (int, error) {
	if err := s.admit(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	open, _ := s.OpenDamage()
	defer s.unblock(open)
	return s.backend.Damages().Settle(whole, s.here)
}

// Restored tells the store that a repair brought back an object, which was absent or
// damaged; see [damage.List.Restored].
func (s *Store) Restored(ctx context.Context, root b3.Root, absent bool) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	e, ok, err := s.backend.Get(root)
	if err != nil || !ok || e.Corrupt {
		return err
	}
	open, _ := s.OpenDamage()
	defer s.unblock(open)
	return s.backend.Damages().Restored(root, absent, record.SizeOf(e), s.here)
}

// unblock lets evictions go on at once when the last damage ended; before is how much
// was open.
func (s *Store) unblock(before int) {
	if open, _ := s.OpenDamage(); open == 0 && before > 0 {
		s.gc.Released()
	}
}
