// Package pins keeps the pins of a store's objects, and the durability that pins ask for.
//
// A pin is set under a lease of its object, counted in the quota of its label, and committed. A
// recursive pin is not set before a garbage collection that read the pins earlier has heard of it.
// A pin that had a target leaves a record when it is removed, until [Keeper.ForgetTarget].
package pins

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
	"allium/store/admission"
	"allium/store/gc"
	"allium/store/lease"
	"allium/store/meta"
	"allium/store/moved"
	"allium/store/quota"
	"allium/store/uses"
)

// Backend has the pins that [quota.Quotas] sets and drops, and knows the objects that they protect.
type Backend interface {
	// Get, SetTarget, Pin, Pins, Released and ForgetPin are those of [meta.Objects] and [meta.Pins].
	Get(root b3.Root) (e meta.Entry, ok bool, err error)
	SetTarget(root b3.Root, label string, t meta.Target) (bool, error)
	Pin(root b3.Root, label string) (p meta.Pin, ok bool, err error)
	Pins(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)
	Released(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)
	ForgetPin(root b3.Root, label string) (bool, error)
}

// Deps holds the dependencies of a Keeper.
type Deps struct {
	Backend   Backend
	Admission *admission.Control
	Leases    *lease.Table
	Moved     *moved.Table
	Uses      *uses.Tracker
	Quotas    *quota.Quotas
	Collector *gc.Collector
}

// Keeper keeps the pins of a store. Its methods are safe for concurrent use.
type Keeper struct{ deps Deps }

// New returns a Keeper.
func New(deps Deps) *Keeper { return &Keeper{deps} }

// Options are the options of one pin.
type Options struct {
	Recursive bool
	Label     string
	// Target is the durability that the pin asks for. The zero Target leaves that of the pin
	// which is replaced; SetTarget removes one. Without a number it gets the next one.
	Target meta.Target
	Charge *quota.Charge // what the add so far counted, which the pin takes over; may be nil
}

// Pinning is one pin of [Keeper.PinAll].
type Pinning struct {
	Root b3.Root
	Options
}

// Pin adds a pin durably, or replaces the pin with the same label. It returns
// not_found if the object is not stored. A recursive pin also protects every
// object below root, including those that arrive later; root may be a file. What
// is stored when Pin returns nil stays, even if a garbage collection was about to
// remove it. Pin returns quota if the label already holds as much as Config.Quotas
// allows. It waits for an object that is being restored.
func (k *Keeper) Pin(ctx context.Context, root b3.Root, opt Options) error {
	return k.PinAll(ctx, []Pinning{{root, opt}})[0]
}

// PinAll adds pins as Pin does each of them, and makes them durable together. It returns the error of each.
func (k *Keeper) PinAll(ctx context.Context, pins []Pinning) []error {
	errs := make([]error, len(pins))
	for i, p := range pins {
		if errs[i] = meta.CheckLabel(p.Label); errs[i] == nil {
			errs[i] = k.deps.Moved.Wait(ctx, p.Root)
		}
	}
	if err := k.deps.Admission.EnterContext(ctx); err != nil {
		for i := range errs {
			errs[i] = cmp.Or(errs[i], err)
		}
		return errs
	}
	defer k.deps.Admission.Leave()
	var set []quota.Pinning
	var added []meta.Second
	var at []int // of each of set in pins
	for i, p := range pins {
		k.deps.Leases.Acquire(p.Root)
		defer k.deps.Leases.Release(p.Root)
		if errs[i] != nil {
			continue
		}
		e, pin, err := k.pinning(ctx, p)
		if errs[i] = err; err == nil {
			set = append(set, quota.Pinning{Pin: pin, Size: e.Size, Charge: p.Charge})
			added, at = append(added, e.Added), append(at, i)
		}
	}
	for n, err := range k.deps.Quotas.SetPins(ctx, set) {
		p := pins[at[n]]
		if err == nil {
			err = k.pinned(ctx, p, added[n])
		}
		if err != nil {
			errs[at[n]] = fmt.Errorf("pin %s: %w", p.Root, err)
		}
	}
	return errs
}

// pinning returns the pin that is to be set, and the entry of its object, on which the caller has a lease.
func (k *Keeper) pinning(ctx context.Context, p Pinning) (e meta.Entry, pin meta.Pin, err error) {
	if err := k.deps.Leases.Settle(ctx, p.Root); err != nil {
		return e, pin, err
	}
	e, ok, err := k.deps.Backend.Get(p.Root)
	if err != nil {
		return e, pin, fmt.Errorf("pin %s: %w", p.Root, err)
	}
	if !ok {
		return e, pin, meta.NotFound(p.Root)
	}
	pin = meta.Pin{
		Root: p.Root, Label: p.Label, Recursive: p.Recursive, Created: time.Now().UTC().Truncate(time.Second),
	}
	pin.Target, err = k.nextTarget(p.Root, p.Options)
	return e, pin, err
}

// pinned notes that a pin was set, of an object that was added at that time.
func (k *Keeper) pinned(ctx context.Context, p Pinning, added meta.Second) error {
	k.deps.Uses.Note(p.Root, added)
	if !p.Recursive {
		return nil
	}
	// A collection that read the pins before must end; a later one sees this pin.
	if err := k.deps.Collector.PinAdded(ctx, p.Root); err != nil {
		return fmt.Errorf("the pin is set, but objects below it may just be removed: %w", err)
	}
	return nil
}

// HasPin reports whether an object has a pin with that label.
func (k *Keeper) HasPin(ctx context.Context, root b3.Root, label string) (bool, error) {
	if err := k.deps.Admission.EnterContext(ctx); err != nil {
		return false, err
	}
	defer k.deps.Admission.Leave()
	_, ok, err := k.ownPin(root, label)
	return ok, err
}

// Unpin removes the pin with that label durably. If the pin has a target, the record that it was
// removed stays until ForgetTarget. Unpin returns not_found if there is no such pin.
func (k *Keeper) Unpin(ctx context.Context, root b3.Root, label string) error {
	if err := k.deps.Admission.EnterContext(ctx); err != nil {
		return err
	}
	defer k.deps.Admission.Leave()
	ok, err := k.deps.Quotas.DropPin(ctx, root, label)
	if err != nil {
		return fmt.Errorf("unpin %s: %w", root, err)
	}
	if !ok {
		return noPin(root, label)
	}
	k.deps.Collector.RetryEviction()
	return nil
}

// Pins yields the pins in order of address and label. It keeps one page of
// [meta.PageSize] pins. An error ends the listing.
func (k *Keeper) Pins(ctx context.Context) iter.Seq2[meta.Pin, error] {
	return k.listPins(ctx, k.deps.Backend.Pins, b3.Root{}, meta.PageSize)
}

// pinsOfOne is the number of pins that PinsOf reads at once. An object has few, and those of the next
// objects would be read for nothing.
const pinsOfOne = 8

// PinsOf yields the pins of one object in order of their labels. It begins with the first of them.
func (k *Keeper) PinsOf(ctx context.Context, root b3.Root) iter.Seq2[meta.Pin, error] {
	return func(yield func(meta.Pin, error) bool) {
		for p, err := range k.listPins(ctx, k.deps.Backend.Pins, root, pinsOfOne) {
			if err == nil && p.Root != root || !yield(p, err) {
				return
			}
		}
	}
}

// pagePins appends a page of pins, as the methods of the backend do.
type pagePins func(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)

// listPins yields pins, from those of the object root on. It reads them in pages of size pins.
func (k *Keeper) listPins(ctx context.Context, from pagePins, root b3.Root, size int) iter.Seq2[meta.Pin, error] {
	return func(yield func(meta.Pin, error) bool) {
		root, label := root, ""
		buf := make([]meta.Pin, 0, size)
		for {
			page, err := k.pinPage(ctx, from, root, label, buf)
			if err != nil {
				yield(meta.Pin{}, fmt.Errorf("list pins: %w", err))
				return
			}
			for _, p := range page {
				if !yield(p, nil) {
					return
				}
			}
			if len(page) < cap(buf) {
				return
			}
			last := page[len(page)-1]
			root, label = last.Root, last.Label+"\x00" // a label has no NUL
		}
	}
}

func (k *Keeper) pinPage(
	ctx context.Context, from pagePins, root b3.Root, label string, buf []meta.Pin,
) ([]meta.Pin, error) {
	if err := k.deps.Admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer k.deps.Admission.Leave()
	return from(root, label, buf)
}

// Pinned reports whether a pin protects root, and names that pin: one of root, or
// a recursive pin above it. It reads the directories below recursive pins until
// it finds root. If it finds no pin and one of these directories is damaged or
// lost, it returns conflict, because the directory may name root.
func (k *Keeper) Pinned(ctx context.Context, root b3.Root) (pinned bool, why string, err error) {
	if err := k.deps.Admission.EnterContext(ctx); err != nil {
		return false, "", err
	}
	defer k.deps.Admission.Leave()
	h, err := k.deps.Collector.Holder(ctx, root)
	if err != nil || h == nil {
		return false, "", err
	}
	return true, h.String(), nil
}
