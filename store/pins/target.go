package pins

import (
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// SetTarget durably sets the durability that a pin asks for, and returns the target that the pin
// has then. Without a number t gets the next one; a t with neither copies nor shards removes the
// target. A t whose number is not above that of the pin's target changes nothing, so that records
// may arrive in any order, and neither does a t without a number that asks for what the pin asks for
// already. SetTarget returns not_found if there is no such pin.
func (k *Keeper) SetTarget(ctx context.Context, root b3.Root, label string, t meta.Target) (meta.Target, error) {
	if err := k.deps.Admission.EnterContext(ctx); err != nil {
		return meta.Target{}, err
	}
	defer k.deps.Admission.Leave()
	for {
		p, ok, err := k.ownPin(root, label)
		if err != nil {
			return meta.Target{}, fmt.Errorf("set the target of %s: %w", root, err)
		}
		if !ok {
			return meta.Target{}, noPin(root, label)
		}
		next := t
		if next.Seq == 0 {
			if next.SameCopies(p.Target) {
				return p.Target, nil
			}
			next = next.Next(p.Target, uint64(time.Now().UnixMilli()))
		}
		if err := next.Check(); err != nil {
			return meta.Target{}, err
		}
		if !next.Replaces(p.Target) {
			return p.Target, nil
		}
		set, err := k.deps.Backend.SetTarget(root, label, next)
		if err != nil {
			return meta.Target{}, fmt.Errorf("set the target of %s: %w", root, err)
		}
		if set {
			return next, nil
		}
		// Another caller changed or dropped the pin meanwhile.
		if err := ctx.Err(); err != nil {
			return meta.Target{}, err
		}
	}
}

// nextTarget returns the target of opt with a number above that of the pin which is replaced, or
// of its removal.
func (k *Keeper) nextTarget(root b3.Root, opt Options) (meta.Target, error) {
	t := opt.Target
	if t.Wants() && t.Seq == 0 {
		old, _, err := k.deps.Backend.Pin(root, opt.Label)
		if err != nil {
			return meta.Target{}, fmt.Errorf("pin %s: %w", root, err)
		}
		t = t.Next(old.Target, uint64(time.Now().UnixMilli()))
	}
	return t, t.Check()
}

// ownPin returns the pin of root with that label. ok is false if there is none.
func (k *Keeper) ownPin(root b3.Root, label string) (p meta.Pin, ok bool, err error) {
	p, ok, err = k.deps.Backend.Pin(root, label)
	return p, ok && !p.Released, err
}

func noPin(root b3.Root, label string) error {
	return status.Errorf(status.NotFound, "%s has no pin labelled %q; `allium pin ls` lists them", root, label)
}

// RemovedTargets yields the pins with a target that were dropped, in order of address and label.
// Each says with its number when; ForgetTarget ends it. It keeps one page of [meta.PageSize] pins. An
// error ends the listing.
func (k *Keeper) RemovedTargets(ctx context.Context) iter.Seq2[meta.Pin, error] {
	return k.listPins(ctx, k.deps.Backend.Released, b3.Root{}, meta.PageSize)
}

// ForgetTarget durably removes the record that a target was removed. It returns not_found if
// there is none.
func (k *Keeper) ForgetTarget(ctx context.Context, root b3.Root, label string) error {
	if err := k.deps.Admission.EnterContext(ctx); err != nil {
		return err
	}
	defer k.deps.Admission.Leave()
	ok, err := k.deps.Backend.ForgetPin(root, label)
	if err != nil {
		return fmt.Errorf("forget the removed target of %s: %w", root, err)
	}
	if !ok {
		return status.Errorf(status.NotFound, "%s has no removed target under the label %q", root, label)
	}
	return nil
}
