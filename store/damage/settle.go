package damage

import (
	"slices"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Settle ends the open damage whose objects are all back: those it names, none of
// whose records is missing. here reports whether an object is visible and not known to
// be damaged. whole says that a walk over everything that pins promise has just found
// nothing lost; without it nothing is known of an entry that names only the first of
// its objects. It returns how many entries it ended.
func (d *List) Settle(whole bool, here func(b3.Root) (bool, error)) (int, error) {
	return d.settle(whole, here, func(meta.Damage) bool { return true })
}

// Restored takes note of an object that a repair brought back and that is here now.
// Where an open entry names it, the entry ends when all that it names is back. Else,
// where the object was absent, its record of so many bytes is one of those of which
// nobody knew whose they were, and that much less of them is left; the caller knows
// that a pin promises it.
func (d *List) Restored(root b3.Root, absent bool, record int64, here func(b3.Root) (bool, error)) error {
	named := false
	names := func(x meta.Damage) bool {
		if !slices.Contains(x.Roots, root) {
			return false
		}
		named = true
		return true
	}
	if _, err := d.settle(false, here, names); err != nil || named || !absent {
		return err
	}
	left := record
	if _, err := d.Update(func(x *meta.Damage) bool {
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
	_, err := d.settle(false, here, func(x meta.Damage) bool { return len(x.Roots) > 0 })
	return err
}

// settle ends the open entries that which picks and of which everything is back.
func (d *List) settle(whole bool, here func(b3.Root) (bool, error), which func(meta.Damage) bool) (int, error) {
	var back []meta.Damage
	for _, x := range d.All() {
		if x.State != meta.DamageOpen || !which(x) || x.Left > 0 || len(x.Roots) == 0 {
			continue
		}
		if len(x.Roots) == meta.MaxDamageRoots && !whole { // there may be more
			continue
		}
		ok, err := all(x.Roots, here)
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
	return d.Update(func(x *meta.Damage) bool {
		for _, o := range back {
			if x.State == meta.DamageOpen && x.Left == 0 && x.Same(o) {
				x.State = meta.DamageRepaired
				return true
			}
		}
		return false
	})
}

// all reports whether all of roots are here.
func all(roots []b3.Root, here func(b3.Root) (bool, error)) (bool, error) {
	for _, root := range roots {
		if ok, err := here(root); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
