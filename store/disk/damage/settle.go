package damage

import (
	"slices"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Settle ends the open findings whose objects are all present again, and returns how many it
// ended. It skips a finding that names no object or has lost records that cannot be named.
//
// present reports whether an object is visible and not known to be damaged. complete says
// that a walk over everything that pins promise has just found nothing lost. Without it,
// Settle also skips a finding with MaxDamageRoots objects, which may affect more objects
// than it names.
func (d *List) Settle(complete bool, present func(b3.Root) (bool, error)) (int, error) {
	return d.settle(complete, present, func(meta.Damage) bool { return true })
}

// Restored updates the findings after a repair brought back root, which a pin promises. An
// open finding that names root ends when all objects that it names are present.
//
// If no open finding names root and root was absent before, its record was among the lost
// ones that cannot be named. Restored then subtracts record, the length of that record in
// bytes, from Left of the open findings, oldest first. A finding whose Left becomes 0 ends
// when all objects that it names, if any, are present. present is as for Settle.
func (d *List) Restored(root b3.Root, absent bool, record int64, present func(b3.Root) (bool, error)) error {
	named := false
	names := func(x meta.Damage) bool {
		if !slices.Contains(x.Roots, root) {
			return false
		}
		named = true
		return true
	}
	if _, err := d.settle(false, present, names); err != nil || named || !absent {
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
	_, err := d.settle(false, present, func(x meta.Damage) bool { return len(x.Roots) > 0 })
	return err
}

// settle is Settle for the findings that which selects.
func (d *List) settle(complete bool, present func(b3.Root) (bool, error), which func(meta.Damage) bool) (int, error) {
	var restored []meta.Damage
	for _, x := range d.All() {
		if x.State != meta.DamageOpen || !which(x) || x.Left > 0 || len(x.Roots) == 0 {
			continue
		}
		if len(x.Roots) == meta.MaxDamageRoots && !complete { // the finding may affect more objects
			continue
		}
		ok, err := all(x.Roots, present)
		if err != nil {
			return 0, err
		}
		if ok {
			restored = append(restored, x)
		}
	}
	if len(restored) == 0 {
		return 0, nil
	}
	return d.Update(func(x *meta.Damage) bool {
		for _, o := range restored {
			if x.State == meta.DamageOpen && x.Left == 0 && x.Same(o) {
				x.State = meta.DamageRepaired
				return true
			}
		}
		return false
	})
}

// all reports whether all of roots are present.
func all(roots []b3.Root, present func(b3.Root) (bool, error)) (bool, error) {
	for _, root := range roots {
		if ok, err := present(root); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}
