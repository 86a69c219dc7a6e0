package gc

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Lost is an object that a pin promises, and that is absent or damaged.
type Lost struct {
	Root      b3.Root
	Pin       meta.Pin
	Path      string // from the pin to the object, of names; empty for the pinned object itself
	Corrupt   bool   // it is here and damaged, else it is absent
	Directory bool   // it may name other objects, which nobody can tell while it is lost
}

// PromiseOptions say how Promises works.
type PromiseOptions struct {
	Fast bool // take no rests
}

// Promises follows every pin, and what recursive ones lead to, and calls lost
// for each object on the way that is absent or known to be damaged, in most
// cases once. It reads directories and no other content. When lost returns and
// an absent directory has come back, what is below is followed too. An error of
// lost ends the walk and is returned. One walk runs at a time, a second one
// waits. RAM is bounded as for a collection.
func (g *Collector) Promises(ctx context.Context, opt PromiseOptions, lost func(Lost) error) error {
	if err := g.deps.Admission.Enter(); err != nil {
		return err
	}
	g.deps.Admission.Leave() // a walk does not hold up the end of the store
	select {
	case g.promising <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-g.deps.Admission.Stopping():
		return meta.ErrDraining
	}
	defer func() { <-g.promising }()
	w := newPromiseWalk(g, opt, lost)
	for p, err := range g.deps.Pins(ctx) {
		if err != nil {
			return err
		}
		if err := w.follow(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// promiseWalk is one walk over what pins promise.
type promiseWalk struct {
	g    *Collector
	lost func(Lost) error
	walk walker
	pace pacer

	pin  meta.Pin             // that is being followed
	told map[b3.Root]struct{} // at most maxSeen
	err  error                // of lost, or of a look-up
}

func newPromiseWalk(g *Collector, opt PromiseOptions, lost func(Lost) error) *promiseWalk {
	w := &promiseWalk{
		g: g, lost: lost, told: map[b3.Root]struct{}{},
		pace: pacer{duty: g.deps.Duty, hurry: func() bool { return false }, admission: g.deps.Admission},
	}
	if opt.Fast {
		w.pace.duty = 1
	}
	w.walk = walker{
		g: g, pause: w.rest,
		visit:   func(b3.Root) bool { return w.err != nil },
		damaged: func(path []Step) { w.tell(path, true, true) },
		absent:  func(path []Step) { w.tell(path, false, true) },
		file:    w.file,
	}
	return w
}

func (w *promiseWalk) rest(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	return w.pace.rest(ctx)
}

// follow follows one pin.
func (w *promiseWalk) follow(ctx context.Context, p meta.Pin) error {
	w.pin = p
	if err := w.rest(ctx); err != nil {
		return err
	}
	if p.Recursive {
		if _, _, err := w.walk.walk(ctx, p.Root); err != nil {
			return err
		}
	}
	// What is no directory the walk has not looked at closely.
	w.look(p.Root, p.Recursive, func() []Step { return []Step{{Root: p.Root}} })
	return w.err
}

// file looks at a file that a directory names.
func (w *promiseWalk) file(node, at Step) {
	w.look(at.Root, false, func() []Step { return append(w.walk.way(), node, at) })
}

// look tells of an object when it is lost; path is the way to it.
func (w *promiseWalk) look(root b3.Root, directory bool, path func() []Step) {
	e, ok, err := w.entry(root)
	switch {
	case err != nil:
		w.err = err
	case !ok || e.Corrupt:
		w.tell(path(), ok, directory)
	}
}

// entry is what the index says, also of an object whose removal has begun: it
// is promised, so it stays.
func (w *promiseWalk) entry(root b3.Root) (meta.Entry, bool, error) {
	if w.err != nil {
		return meta.Entry{}, true, w.err
	}
	if err := w.g.deps.Admission.Enter(); err != nil {
		return meta.Entry{}, true, err
	}
	defer w.g.deps.Admission.Leave()
	return w.g.deps.Backend.Get(root)
}

// tell calls lost for the last object of path, unless it did so before or the
// pin is gone.
func (w *promiseWalk) tell(path []Step, corrupt, directory bool) {
	root := path[len(path)-1].Root
	if _, twice := w.told[root]; twice || w.err != nil {
		return
	}
	if err := w.g.deps.Admission.Enter(); err != nil {
		w.err = err
		return
	}
	ok, err := w.g.hasPin(w.pin)
	w.g.deps.Admission.Leave()
	if err != nil || !ok {
		w.err = err
		return
	}
	if len(w.told) < maxSeen {
		w.told[root] = struct{}{}
	}
	w.err = w.lost(Lost{Root: root, Pin: w.pin, Path: Path(path), Corrupt: corrupt, Directory: directory})
}

// Promised reports whether a pin is still there that made an object promised,
// and the object still lost.
func (g *Collector) Promised(ctx context.Context, l Lost) (bool, error) {
	if err := g.deps.Admission.EnterContext(ctx); err != nil {
		return false, err
	}
	defer g.deps.Admission.Leave()
	e, ok, err := g.deps.Backend.Get(l.Root)
	if err != nil {
		return false, fmt.Errorf("store: look up %s: %w", l.Root, err)
	}
	if ok && !e.Corrupt {
		return false, nil
	}
	return g.hasPin(l.Pin)
}
