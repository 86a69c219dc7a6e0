package store

import (
	"context"
	"fmt"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// maxWhyPins bounds the pins that a Why lists.
const maxWhyPins = 64

// Why says what holds one object.
type Why struct {
	Root     b3.Root
	Presence Presence
	Corrupt  bool
	Size     int64      // bytes that are here
	Used     time.Time  // last use, to the second; zero when it is not here or unknown
	Pins     []meta.Pin // of its own, at most 64
	Above    *Chain     // the first recursive pin found that holds it from above; nil: none
	Unknown  error      // conflict: a directory below a pin is damaged, so there may be one
	Leases   int        // readers, puts and downloads that use it now
	Ingest   bool       // it is being downloaded
	Held     bool       // an add or a fetch under way keeps it until its pin is set

	// Cutoff is the last use, to the second, down to which the next eviction
	// removes what nothing holds, as the latest collection or plan saw it; zero
	// when that is not known, or there is no bound.
	Cutoff time.Time
}

// Kept reports whether a collection would leave the object.
func (w Why) Kept() bool {
	return len(w.Pins) > 0 || w.Above != nil || w.Unknown != nil || w.Leases > 0 || w.Ingest || w.Held
}

// Why finds out what holds root, which need not be here. It reads the
// directories below recursive pins until it finds root.
func (s *Store) Why(ctx context.Context, root b3.Root) (Why, error) {
	if err := s.admit(ctx); err != nil {
		return Why{}, err
	}
	defer s.leave()
	w := Why{Root: root, Leases: s.leases.Count(root), Cutoff: s.cutoff().Time()}
	s.mu.Lock()
	_, w.Ingest = s.running[root]
	s.mu.Unlock()
	if err := s.whyHere(&w); err != nil {
		return Why{}, fmt.Errorf("store: why %s: %w", root, err)
	}
	page, err := s.backend.Pins(root, "", make([]meta.Pin, 0, maxWhyPins))
	if err != nil {
		return Why{}, fmt.Errorf("store: why %s: %w", root, err)
	}
	for _, p := range page {
		if p.Root == root {
			w.Pins = append(w.Pins, p)
		}
	}
	above, damage, err := s.above(ctx, root)
	if err != nil {
		return Why{}, fmt.Errorf("store: why %s: %w", root, err)
	}
	if w.Above = above; above == nil && damage != nil {
		w.Unknown = damage.err(root)
	}
	return w, nil
}

// whyHere fills in what is here and when it was used.
func (s *Store) whyHere(w *Why) error {
	e, ok, err := s.find(w.Root)
	if err != nil {
		return err
	}
	var used meta.Second
	if ok {
		w.Presence, w.Corrupt, w.Size = Complete, e.Corrupt, e.Size
		noted := s.touches.usedAt(w.Root)
		if used, err = s.backend.UsedAt(e); err != nil {
			return err
		}
		used = max(used, noted)
	} else if rec, ok, err := s.partial(w.Root); err != nil {
		return err
	} else if ok {
		w.Presence, w.Size, used = PartlyHere, rec.Held, rec.Used
	}
	w.Used = used.Time()
	w.Held = w.Presence != Absent && s.touches.held(used)
	return nil
}

// Next reports whether the next eviction removes the object, as far as is known.
func (w Why) Next() bool {
	return w.Presence != Absent && !w.Kept() && !w.Cutoff.IsZero() && !w.Used.After(w.Cutoff)
}

// cutoff is the last use down to which the next eviction removes; 0 is unknown.
// An eviction begins at its mark at the latest, and ends at the low one.
func (s *Store) cutoff() meta.Second {
	s.gc.mu.Lock()
	h := s.gc.ages
	s.gc.mu.Unlock()
	b := s.bounds()
	least, now := b.trigger.less(b.low), b.excess(s.usage())
	need := amount{meta.Count{Objects: max(least.Objects, now.Objects), Bytes: max(least.Bytes, now.Bytes)}, max(least.local, now.local)}
	if h == nil || !need.passes(amount{}) {
		return 0
	}
	last, _ := h.reach(need)
	return h.latest(max(last, 0))
}
