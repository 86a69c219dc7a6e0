package store

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/quota"
)

// PinOptions are the options of one pin.
type PinOptions struct {
	Recursive bool
	Label     string
	// Target is the durability that the pin asks for. The zero Target leaves that of the pin
	// which is replaced; SetTarget removes one. Without a number it gets the next one.
	Target meta.Target
	Charge *quota.Charge // what the add so far counted, which the pin takes over; may be nil
}

// Pinning is one pin of [Store.PinAll].
type Pinning struct {
	Root b3.Root
	PinOptions
}

// Pin adds a pin durably, or replaces the pin with the same label. It returns
// not_found if the object is not stored. A recursive pin also protects every
// object below root, including those that arrive later; root may be a file. What
// is stored when Pin returns nil stays, even if a garbage collection was about to
// remove it. Pin returns quota if the label already holds as much as Config.Quotas
// allows. It waits for an object that is being restored.
func (s *Store) Pin(ctx context.Context, root b3.Root, opt PinOptions) error {
	return s.PinAll(ctx, []Pinning{{root, opt}})[0]
}

// PinAll adds pins as Pin does each of them, and makes them durable together. It returns the error of each.
func (s *Store) PinAll(ctx context.Context, pins []Pinning) []error {
	errs := make([]error, len(pins))
	for i, p := range pins {
		if errs[i] = meta.CheckLabel(p.Label); errs[i] == nil {
			errs[i] = s.restores.wait(ctx, p.Root)
		}
	}
	if err := s.admission.EnterContext(ctx); err != nil {
		for i := range errs {
			errs[i] = cmp.Or(errs[i], err)
		}
		return errs
	}
	defer s.admission.Leave()
	var set []quota.Pinning
	var added []meta.Second
	var at []int // of each of set in pins
	for i, p := range pins {
		s.leases.Acquire(p.Root)
		defer s.leases.Release(p.Root)
		if errs[i] != nil {
			continue
		}
		e, pin, err := s.pinning(ctx, p)
		if errs[i] = err; err == nil {
			set = append(set, quota.Pinning{Pin: pin, Size: e.Size, Charge: p.Charge})
			added, at = append(added, e.Added), append(at, i)
		}
	}
	for n, err := range s.quotas.SetPins(ctx, set) {
		p := pins[at[n]]
		if err == nil {
			err = s.pinned(ctx, p, added[n])
		}
		if err != nil {
			errs[at[n]] = fmt.Errorf("pin %s: %w", p.Root, err)
		}
	}
	return errs
}

// pinning returns the pin that is to be set, and the entry of its object, on which the caller has a lease.
func (s *Store) pinning(ctx context.Context, p Pinning) (e meta.Entry, pin meta.Pin, err error) {
	if err := s.leases.Settle(ctx, p.Root); err != nil {
		return e, pin, err
	}
	e, ok, err := s.backend.Get(p.Root)
	if err != nil {
		return e, pin, fmt.Errorf("pin %s: %w", p.Root, err)
	}
	if !ok {
		return e, pin, notFound(p.Root)
	}
	pin = meta.Pin{
		Root: p.Root, Label: p.Label, Recursive: p.Recursive, Created: time.Now().UTC().Truncate(time.Second),
	}
	pin.Target, err = s.nextTarget(p.Root, p.PinOptions)
	return e, pin, err
}

// pinned notes that a pin was set, of an object that was added at that time.
func (s *Store) pinned(ctx context.Context, p Pinning, added meta.Second) error {
	s.noteUse(p.Root, added)
	if !p.Recursive {
		return nil
	}
	// A collection that read the pins before must end; a later one sees this pin.
	if err := s.gc.PinAdded(ctx, p.Root); err != nil {
		return fmt.Errorf("the pin is set, but objects below it may just be removed: %w", err)
	}
	return nil
}

// pinUnlessPinned adds a pin that is not recursive. An existing pin with the same
// label stays as it is, even if it is recursive.
func (s *Store) pinUnlessPinned(ctx context.Context, root b3.Root, label string, charge *quota.Charge) error {
	_, ok, err := s.ownPin(root, label)
	if err != nil || ok {
		return err
	}
	return s.Pin(ctx, root, PinOptions{Label: label, Charge: charge})
}

// HasPin reports whether an object has a pin with that label.
func (s *Store) HasPin(ctx context.Context, root b3.Root, label string) (bool, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return false, err
	}
	defer s.admission.Leave()
	_, ok, err := s.ownPin(root, label)
	return ok, err
}

// Unpin removes the pin with that label durably. If the pin has a target, the record that it was
// removed stays until ForgetTarget. Unpin returns not_found if there is no such pin.
func (s *Store) Unpin(ctx context.Context, root b3.Root, label string) error {
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	defer s.admission.Leave()
	ok, err := s.quotas.DropPin(ctx, root, label)
	if err != nil {
		return fmt.Errorf("unpin %s: %w", root, err)
	}
	if !ok {
		return noPin(root, label)
	}
	s.gc.RetryEviction()
	return nil
}

// Pins yields the pins in order of address and label. It keeps one page of
// [meta.PageSize] pins. An error ends the listing.
func (s *Store) Pins(ctx context.Context) iter.Seq2[meta.Pin, error] {
	return s.listPins(ctx, s.backend.Pins)
}

// pagePins appends a page of pins, as the methods of the backend do.
type pagePins func(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error)

func (s *Store) listPins(ctx context.Context, from pagePins) iter.Seq2[meta.Pin, error] {
	return func(yield func(meta.Pin, error) bool) {
		var root b3.Root
		var label string
		buf := make([]meta.Pin, 0, meta.PageSize)
		for {
			page, err := s.pinPage(ctx, from, root, label, buf)
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

func (s *Store) pinPage(
	ctx context.Context, from pagePins, root b3.Root, label string, buf []meta.Pin,
) ([]meta.Pin, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	return from(root, label, buf)
}

// Pinned reports whether a pin protects root, and names that pin: one of root, or
// a recursive pin above it. It reads the directories below recursive pins until
// it finds root. If it finds no pin and one of these directories is damaged or
// lost, it returns conflict, because the directory may name root.
func (s *Store) Pinned(ctx context.Context, root b3.Root) (pinned bool, why string, err error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return false, "", err
	}
	defer s.admission.Leave()
	h, err := s.gc.Holder(ctx, root)
	if err != nil || h == nil {
		return false, "", err
	}
	return true, h.String(), nil
}
