package store

import (
	"context"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/segment/record"
)

// errIntegrity is why callers refuse new content while records are lost.
var errIntegrity = status.Errorf(status.NotReady,
	"the store lost records and cannot tell which, so it takes no writes; "+
		"`allium store damage` lists the damage: wait until peers have returned what is lost, "+
		"or accept the loss with `allium store damage --accept`")

// Damage lists what recoveries and checks found damaged, oldest first. It is
// empty for the memory backend.
func (s *Store) Damage() []meta.Damage { return s.backend.Damages().All() }

// OpenDamage returns the number of open findings, and how many of them lost
// records that cannot be named.
func (s *Store) OpenDamage() (open, unknown int) { return s.backend.Damages().Open() }

// UnknownLoss returns not_ready while the store has lost records that cannot be
// named. Callers then refuse what users add, upload and pin. The store itself
// still accepts repairs and downloads.
func (s *Store) UnknownLoss() error {
	if _, unknown := s.OpenDamage(); unknown > 0 {
		return errIntegrity
	}
	return nil
}

// AcceptDamage closes all open damage: the caller accepts the loss. It returns
// the findings that were open.
func (s *Store) AcceptDamage(ctx context.Context) ([]meta.Damage, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	accepted, err := s.backend.Damages().Accept()
	s.gc.RetryEviction()
	return accepted, err
}

// SettleDamage closes the open damage whose objects are all stored whole again,
// and returns how many findings it closed; see [damage.List.Settle].
func (s *Store) SettleDamage(ctx context.Context, whole bool) (int, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return 0, err
	}
	defer s.admission.Leave()
	open, _ := s.OpenDamage()
	defer s.resumeEvictions(open)
	return s.backend.Damages().Settle(whole, s.opener.Whole)
}

// Restored tells the store that a repair brought back an object that was absent
// or damaged; see [damage.List.Restored].
func (s *Store) Restored(ctx context.Context, root b3.Root, absent bool) error {
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	defer s.admission.Leave()
	e, ok, err := s.backend.Get(root)
	if err != nil || !ok || e.Corrupt {
		return err
	}
	open, _ := s.OpenDamage()
	defer s.resumeEvictions(open)
	return s.backend.Damages().Restored(root, absent, record.EntrySize(e), s.opener.Whole)
}

// resumeEvictions lets evictions go on if no damage is open any more. before is
// the number of findings that were open.
func (s *Store) resumeEvictions(before int) {
	if open, _ := s.OpenDamage(); open == 0 && before > 0 {
		s.gc.RetryEviction()
	}
}

// CheckLog reads every segment of the log and adds what cannot be read to the
// list of damage. It returns how many segments it read, 0 for the memory backend.
// See [disk.Backend.CheckLog].
func (s *Store) CheckLog(ctx context.Context) (segments int, err error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return 0, err
	}
	defer s.admission.Leave()
	return s.backend.CheckLog(ctx, s.admission.Alive)
}
