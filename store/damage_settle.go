package store

import (
	"context"

	"allium/store/segment/record"

	"allium/protocols/b3"
	"allium/store/meta"
)

// SettleDamage ends the open damage whose objects are all back: those it names,
// none of whose records is missing. It returns how many entries it ended. whole
// says that a walk over everything that pins promise has just found nothing
// lost; without it nothing is known of an entry that names only the first of its
// objects.
func (s *Store) SettleDamage(ctx context.Context, whole bool) (int, error) {
	if err := s.admit(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	return s.settleDamage(whole, func(meta.Damage) bool { return true })
}

// Restored tells the store that a repair brought back an object. Where an open
// entry names it, the entry ends when all that it names is back. Else, where a
// pin promises the object and it was absent, its record is one of those of which
// nobody knew whose they were, and that much less of them is left.
func (s *Store) Restored(ctx context.Context, root b3.Root, absent bool) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	e, ok, err := s.backend.Get(root)
	if err != nil || !ok || e.Corrupt {
		return err
	}
	named := false
	names := func(x meta.Damage) bool {
		for _, r := range x.Roots {
			if r == root {
				named = true
				return true
			}
		}
		return false
	}
	if _, err := s.settleDamage(false, names); err != nil || named || !absent {
		return err
	}
	left := record.SizeOf(e)
	if _, err := s.backend.Damages().Update(func(x *meta.Damage) bool {
		n := min(left, x.Left)
		if x.State != meta.DamageOpen || n == 0 {
			return false
		}
		left -= n
		x.Left -= n
		if x.Left == 0 && len(x.Roots) == 0 {
			x.State = meta.DamageRepaired
		}
		return true
	}); err != nil {
		return err
	}
	_, err = s.settleDamage(false, func(x meta.Damage) bool { return len(x.Roots) > 0 })
	s.unblock()
	return err
}

// unblock lets evictions go on at once when no damage is open any more.
func (s *Store) unblock() {
	if open, _ := s.OpenDamage(); open == 0 {
		s.gc.Released()
	}
}

// settleDamage ends the open entries that which picks and of which everything
// is back.
func (s *Store) settleDamage(whole bool, which func(meta.Damage) bool) (int, error) {
	d := s.backend.Damages()
	var back []meta.Damage
	for _, x := range d.All() {
		if x.State != meta.DamageOpen || !which(x) || x.Left > 0 || len(x.Roots) == 0 {
			continue
		}
		if len(x.Roots) == meta.MaxDamageRoots && !whole { // there may be more
			continue
		}
		ok, err := s.allHere(x.Roots)
		if err != nil {
			return 0, err
		}
		if ok {
			back = append(back, x)
		}
	}
	if len(back) == 0 {
		return 0, nil
	}
	n, err := d.Update(func(x *meta.Damage) bool {
		for _, o := range back {
			if x.State == meta.DamageOpen && x.Left == 0 && x.Same(o) {
				x.State = meta.DamageRepaired
				return true
			}
		}
		return false
	})
	s.unblock()
	return n, err
}

// allHere reports whether all of roots are here and not known to be damaged.
func (s *Store) allHere(roots []b3.Root) (bool, error) {
	for _, root := range roots {
		if ok, err := s.here(root); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
