package store

import (
	"context"
	"fmt"
	"iter"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/quota"
)

// PinOptions say how a pin holds.
type PinOptions struct {
	Recursive bool
	Label     string
	Charge    *quota.Charge // of the add that the pin ends, whose count becomes the pin's; may be nil
}

// Pin adds a pin, or replaces the one with the same label, durably. The object
// must be there: not_found tells to fetch it first. A recursive pin holds
// whatever is below root as it arrives; root may be a file. What was there when
// Pin returns nil stays, whatever a garbage collection was about to do. quota
// says that the label holds as much as it may (Config.Quotas).
func (s *Store) Pin(ctx context.Context, root b3.Root, opt PinOptions) error {
	if err := meta.CheckLabel(opt.Label); err != nil {
		return err
	}
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	s.leases.Acquire(root)
	defer s.leases.Release(root)
	if err := s.leases.Settle(ctx, root); err != nil {
		return err
	}
	e, ok, err := s.backend.Get(root)
	if err != nil {
		return fmt.Errorf("store: pin %s: %w", root, err)
	}
	if !ok {
		return notFound(root)
	}
	p := meta.Pin{Root: root, Label: opt.Label, Recursive: opt.Recursive, Created: time.Now().UTC().Truncate(time.Second)}
	if err := s.quotas.SetPin(ctx, p, e.Size, opt.Charge); err != nil {
		return fmt.Errorf("store: pin %s: %w", root, err)
	}
	s.used(root, e.Added)
	if !opt.Recursive {
		return nil
	}
	// What looked at the pins before is waited for; what looks later sees this one.
	if err := s.gc.PinAdded(ctx, root); err != nil {
		return fmt.Errorf("store: pin %s: the pin is set, but what is below may just be removed: %w", root, err)
	}
	return nil
}

// pinUnlessPinned pins root, not recursively. A pin that the label has already stays
// what it is: it may be recursive.
func (s *Store) pinUnlessPinned(ctx context.Context, root b3.Root, label string, charge *quota.Charge) error {
	own, err := s.backend.Pins(root, label, make([]meta.Pin, 0, 1))
	if err != nil {
		return err
	}
	if len(own) == 1 && own[0].Root == root && own[0].Label == label {
		return nil
	}
	return s.Pin(ctx, root, PinOptions{Label: label, Charge: charge})
}

// Unpin removes the pin with that label, durably; not_found when there is none.
func (s *Store) Unpin(ctx context.Context, root b3.Root, label string) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	ok, err := s.quotas.DropPin(ctx, root, label)
	if err != nil {
		return fmt.Errorf("store: unpin %s: %w", root, err)
	}
	if !ok {
		return status.Errorf(status.NotFound, "store: %s has no pin labelled %q; `allium pin ls` lists them", root, label)
	}
	s.gc.Released()
	return nil
}

// Pins yields the pins in order of address and label, a page at a time. An
// error ends it.
func (s *Store) Pins(ctx context.Context) iter.Seq2[meta.Pin, error] {
	return func(yield func(meta.Pin, error) bool) {
		var from b3.Root
		var label string
		buf := make([]meta.Pin, 0, meta.PageSize)
		for {
			page, err := s.pinPage(ctx, from, label, buf)
			if err != nil {
				yield(meta.Pin{}, fmt.Errorf("store: list pins: %w", err))
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
			from, label = last.Root, last.Label+"\x00" // a label holds no NUL
		}
	}
}

func (s *Store) pinPage(ctx context.Context, from b3.Root, label string, buf []meta.Pin) ([]meta.Pin, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.backend.Pins(from, label, buf)
}

// Pinned reports whether a pin keeps root, and which: its own, or a recursive
// one above it. It reads the directories below recursive pins until it finds
// root. While one of them is damaged or lost, what it names is unknown: conflict,
// unless a pin is found.
func (s *Store) Pinned(ctx context.Context, root b3.Root) (pinned bool, why string, err error) {
	if err := s.admit(ctx); err != nil {
		return false, "", err
	}
	defer s.leave()
	h, err := s.gc.Holder(ctx, root)
	if err != nil || h == nil {
		return false, "", err
	}
	return true, h.String(), nil
}
