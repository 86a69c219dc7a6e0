package store

import (
	"context"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/disk/segment/codec"
	"allium/store/meta"
)

// errIntegrity is why callers refuse new content while records are lost.
var errIntegrity = status.Errorf(status.NotReady,
	"the store lost records and cannot tell which, so it takes no writes; "+
		"`allium store damage` lists the damage: wait until peers have returned what is lost, "+
		"or accept the loss with `allium store damage --accept`")

// Damage lists what recoveries and checks found damaged, oldest first. It is
// empty for the memory backend.
func (s *Store) Damage() []meta.Damage { return s.backend.Damages().All() }

// maxDamagedObjects bounds the result of DamagedObjects.
const maxDamagedObjects = 4096

// DamagedObjects returns a finding for each object that is marked as damaged, in order of address: the
// first maxDamagedObjects. They end when a whole copy has replaced the object, or it was removed. They
// are no part of Damage, and stop no evictions. A store without such objects is not searched.
func (s *Store) DamagedObjects(ctx context.Context) (found []meta.Damage, err error) {
	if s.Stats().Corrupt == 0 {
		return nil, nil
	}
	for e, err := range s.opener.Entries(ctx) {
		switch {
		case err != nil:
			return nil, err
		case !e.Corrupt:
			continue
		case len(found) == maxDamagedObjects:
			return found, nil
		}
		found = append(found, s.damagedObject(e))
	}
	return found, nil
}

// damagedObject returns the finding of an object that is marked as damaged.
func (s *Store) damagedObject(e meta.Entry) meta.Damage {
	d := meta.Damage{
		Kind: meta.DamageObject, State: meta.DamageOpen, Length: e.Size, Roots: []b3.Root{e.Root},
		Reason: "the object is not what its address says, and is not served",
	}
	var remote bool
	if d.File, d.Offset, remote = s.backend.Place(e); remote {
		d.Reason = "the object in the bucket is not what its address says, and is not served"
	}
	return d
}

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
	return s.backend.Damages().Restored(root, absent, codec.EntrySize(e), s.opener.Whole)
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
// See [allium/store/disk/segment.Log.CheckLog].
func (s *Store) CheckLog(ctx context.Context) (segments int, err error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return 0, err
	}
	defer s.admission.Leave()
	return s.backend.CheckLog(ctx, s.admission.Alive)
}
