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

// Why explains what protects one object.
type Why struct {
	Root        b3.Root
	Presence    b3.Presence
	Corrupt     bool
	Size        int64      // bytes that are stored
	Used        time.Time  // last use, to the second; zero when the object is absent or this is unknown
	Pins        []meta.Pin // of the object itself, at most 64
	Above       *Chain     // the first recursive pin found whose tree contains it; nil for none
	Unknown     error      // conflict: a directory below a pin is damaged, so another pin may protect it
	Leases      int        // readers, puts and downloads that use it now
	Downloading bool
	Held        bool // a hold protects it, until the add or fetch in progress sets its pin

	// Cutoff is the last use, to the second, down to which the next eviction removes
	// unprotected objects, according to the latest collection or plan. It is zero when that
	// is unknown or there is no bound.
	Cutoff time.Time
}

// Kept reports whether a collection would keep the object.
func (w Why) Kept() bool {
	return len(w.Pins) > 0 || w.Above != nil || w.Unknown != nil || w.Leases > 0 || w.Downloading || w.Held
}

// Why finds out what protects root, which need not be stored. It reads the directories
// below recursive pins until it finds root.
func (g *Collector) Why(ctx context.Context, root b3.Root) (Why, error) {
	if err := g.deps.Admission.EnterContext(ctx); err != nil {
		return Why{}, err
	}
	defer g.deps.Admission.Leave()
	w := Why{Root: root, Leases: g.deps.Leases.Count(root), Cutoff: g.cutoff().Time()}
	w.Downloading = g.deps.Partials.Running(root)
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
	above, damage, err := g.pinAbove(ctx, root)
	if err != nil {
		return Why{}, fmt.Errorf("store: why %s: %w", root, err)
	}
	if w.Above = above; above == nil && damage != nil {
		w.Unknown = damage.err(root)
	}
	return w, nil
}

// whyHere sets the presence, the size and the last use of the object.
func (t *trees) whyHere(w *Why) error {
	e, ok, err := t.findVisible(w.Root)
	if err != nil {
		return err
	}
	var used meta.Second
	if ok {
		w.Presence, w.Corrupt, w.Size = b3.Complete, e.Corrupt, e.Size
		noted := t.deps.Uses.UsedAt(w.Root)
		if used, err = t.deps.Backend.UsedAt(e); err != nil {
			return err
		}
		used = max(used, noted)
	} else if rec, ok, err := t.deps.Partials.Find(w.Root); err != nil {
		return err
	} else if ok {
		w.Presence, w.Size, used = b3.Partial, rec.Stored, rec.Used
	}
	w.Used = used.Time()
	w.Held = w.Presence != b3.Absent && t.deps.Uses.Held(w.Root, used)
	return nil
}

// EvictedNext reports whether the next eviction removes the object, as far as is known.
func (w Why) EvictedNext() bool {
	return w.Presence != b3.Absent && !w.Kept() && !w.Cutoff.IsZero() && !w.Used.After(w.Cutoff)
}

// cutoff returns the last use down to which the next eviction removes; 0 when unknown. An
// eviction begins at the trigger at the latest and ends at the low-water mark.
func (g *Collector) cutoff() meta.Second {
	_, h, _ := g.latest()
	b := g.deps.Account.bounds()
	least, now := b.trigger.minus(b.low), b.excess(g.deps.Account.usage())
	need := amount{
		meta.Count{Objects: max(least.Objects, now.Objects), Bytes: max(least.Bytes, now.Bytes)},
		max(least.local, now.local),
	}
	if h == nil || !need.exceeds(amount{}) {
		return 0
	}
	last, _ := h.lastBucket(need)
	return h.newestUse(max(last, 0))
}
