package store

import (
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

// Pin adds a pin durably, or replaces the pin with the same label. It returns
// not_found if the object is not stored. A recursive pin also protects every
// object below root, including those that arrive later; root may be a file. What
// is stored when Pin returns nil stays, even if a garbage collection was about to
// remove it. Pin returns quota if the label already holds as much as Config.Quotas
// allows. It waits for an object that is being restored.
func (s *Store) Pin(ctx context.Context, root b3.Root, opt PinOptions) error {
	if err := meta.CheckLabel(opt.Label); err != nil {
		return err
	}
	if err := s.restores.wait(ctx, root); err != nil {
		return err
	}
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	defer s.admission.Leave()
	s.leases.Acquire(root)
	defer s.leases.Release(root)
	if err := s.leases.Settle(ctx, root); err != nil {
		return err
	}
	e, ok, err := s.backend.Get(root)
	if err != nil {
		return fmt.Errorf("pin %s: %w", root, err)
	}
	if !ok {
		return notFound(root)
	}
	p := meta.Pin{Root: root, Label: opt.Label, Recursive: opt.Recursive, Created: time.Now().UTC().Truncate(time.Second)}
	if p.Target, err = s.nextTarget(root, opt); err != nil {
		return err
	}
	if err := s.quotas.SetPin(ctx, p, e.Size, opt.Charge); err != nil {
		return fmt.Errorf("pin %s: %w", root, err)
	}
	s.noteUse(root, e.Added)
	if !opt.Recursive {
		return nil
	}
	// A collection that read the pins before must end; a later one sees this pin.
	if err := s.gc.PinAdded(ctx, root); err != nil {
		return fmt.Errorf("pin %s: the pin is set, but objects below it may just be removed: %w", root, err)
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
