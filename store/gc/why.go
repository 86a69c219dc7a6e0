package gc

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
	Presence b3.Presence
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
func (g *Collector) Why(ctx context.Context, root b3.Root) (Why, error) {
	if err := g.deps.Admission.EnterContext(ctx); err != nil {
		return Why{}, err
	}
	defer g.deps.Admission.Leave()
	w := Why{Root: root, Leases: g.deps.Leases.Count(root), Cutoff: g.cutoff().Time()}
	w.Ingest = g.deps.Partials.Running(root)
	if err := g.whyHere(&w); err != nil {
		return Why{}, fmt.Errorf("store: why %s: %w", root, err)
	}
	page, err := g.deps.Backend.Pins(root, "", make([]meta.Pin, 0, maxWhyPins))
	if err != nil {
		return Why{}, fmt.Errorf("store: why %s: %w", root, err)
	}
	for _, p := range page {
		if p.Root == root {
			w.Pins = append(w.Pins, p)
		}
	}
	above, damage, err := g.above(ctx, root)
	if err != nil {
		return Why{}, fmt.Errorf("store: why %s: %w", root, err)
	}
	if w.Above = above; above == nil && damage != nil {
		w.Unknown = damage.err(root)
	}
	return w, nil
}

// whyHere fills in what is here and when it was used.
func (g *Collector) whyHere(w *Why) error {
	e, ok, err := g.find(w.Root)
	if err != nil {
		return err
	}
	var used meta.Second
	if ok {
		w.Presence, w.Corrupt, w.Size = b3.Complete, e.Corrupt, e.Size
		noted := g.deps.Uses.UsedAt(w.Root)
		if used, err = g.deps.Backend.UsedAt(e); err != nil {
			return err
		}
		used = max(used, noted)
	} else if rec, ok, err := g.deps.Partials.Find(w.Root); err != nil {
		return err
	} else if ok {
		w.Presence, w.Size, used = b3.Partial, rec.Held, rec.Used
	}
	w.Used = used.Time()
	w.Held = w.Presence != b3.Absent && g.deps.Uses.Held(w.Root, used)
	return nil
}

// Next reports whether the next eviction removes the object, as far as is known.
func (w Why) Next() bool {
	return w.Presence != b3.Absent && !w.Kept() && !w.Cutoff.IsZero() && !w.Used.After(w.Cutoff)
}

// cutoff is the last use down to which the next eviction removes; 0 is unknown.
// An eviction begins at its mark at the latest, and ends at the low one.
func (g *Collector) cutoff() meta.Second {
	g.mu.Lock()
	h := g.ages
	g.mu.Unlock()
	b := g.deps.Account.bounds()
	least, now := b.trigger.less(b.low), b.excess(g.deps.Account.usage())
	need := amount{meta.Count{Objects: max(least.Objects, now.Objects), Bytes: max(least.Bytes, now.Bytes)}, max(least.local, now.local)}
	if h == nil || !need.passes(amount{}) {
		return 0
	}
	last, _ := h.reach(need)
	return h.latest(max(last, 0))
}
