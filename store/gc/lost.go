package gc

import (
	"context"
	"fmt"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/store/meta"
)

// Lost is an object that a pin protects and that is missing or damaged.
type Lost struct {
	Root      b3.Root
	Pin       meta.Pin
	Path      string // names from the pin to the object, joined with "/"; empty for the pinned object itself
	Corrupt   bool   // damaged; otherwise missing
	Directory bool   // it may name other objects, which are unknown while it is lost
}

// FindLostOptions configure FindLost.
type FindLostOptions struct {
	Fast bool // work without rests
}

// FindLost walks every pin and the trees of recursive ones. It calls lost for each object
// there that is missing or known to be damaged, in most cases once. It reads directories
// and no other content. If a missing directory has come back when lost returns, its tree is
// walked too. An error of lost ends the walk and is returned. A second call waits for the
// first. RAM is bounded as for a collection.
func (t *trees) FindLost(ctx context.Context, opt FindLostOptions, lost func(Lost) error) error {
	if err := begin(ctx, t.deps.Admission, t.findingLost); err != nil {
		return err
	}
	defer func() { <-t.findingLost }()
	w := newLostWalk(t, opt, lost)
	for p, err := range t.deps.Pins(ctx) {
		if err != nil {
			return err
		}
		if err := w.checkPin(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// lostWalk is one run of FindLost.
type lostWalk struct {
	*trees
	lost func(Lost) error
	walk walker
	duty dutyCycle

	pin      meta.Pin // whose tree is being walked
	gone     bool     // pin, while its tree was walked
	reported manifest.Seen
	err      error // of lost, or of a look-up; ends the walk
}

func newLostWalk(t *trees, opt FindLostOptions, lost func(Lost) error) *lostWalk {
	w := &lostWalk{trees: t, lost: lost, duty: t.newDuty(opt.Fast, func() bool { return false })}
	w.walk = walker{
		trees: t, pause: w.rest,
		visit:   func(manifest.Ref) bool { return w.err != nil || w.gone },
		damaged: func(path []Step) { w.report(path, true, true) },
		absent:  func(path []Step) { w.report(path, false, true) },
		file:    w.checkFile,
	}
	return w
}

func (w *lostWalk) rest(ctx context.Context) error {
	if w.err != nil {
		return w.err
	}
	return w.duty.rest(ctx)
}

// checkPin checks what one pin protects.
func (w *lostWalk) checkPin(ctx context.Context, p meta.Pin) error {
	w.pin = p
	if w.gone { // what the walk for the pin before passed without a report, other pins may lead to
		w.walk.seen.Clear()
		w.walk.nextPass()
		w.gone = false
	}
	if err := w.rest(ctx); err != nil {
		return err
	}
	if p.Recursive {
		if _, _, err := w.walk.walk(ctx, p.Root); err != nil {
			return err
		}
	}
	// The walk checks directories; this checks a top that is a file.
	w.checkObject(p.Root, p.Recursive, func() []Step { return []Step{{Root: p.Root}} })
	return w.err
}

// checkFile checks a file that a directory names.
func (w *lostWalk) checkFile(node, at Step) {
	w.checkObject(at.Root, false, func() []Step { return append(w.walk.currentPath(), node, at) })
}

// checkObject reports an object that is missing or damaged. path returns the path to it.
func (w *lostWalk) checkObject(root b3.Root, directory bool, path func() []Step) {
	e, ok, err := w.entry(root)
	switch {
	case err != nil:
		w.err = err
	case !ok || e.Corrupt:
		w.report(path(), ok, directory)
	}
}

// entry returns the index entry of root, even while its removal is in progress: the pin
// makes that removal fail.
func (w *lostWalk) entry(root b3.Root) (meta.Entry, bool, error) {
	if w.err != nil {
		return meta.Entry{}, true, w.err
	}
	if err := w.deps.Admission.Enter(); err != nil {
		return meta.Entry{}, true, err
	}
	defer w.deps.Admission.Leave()
	return w.deps.Backend.Get(root)
}

// report calls lost for the last object of path, unless it did before or the pin is gone.
func (w *lostWalk) report(path []Step, corrupt, directory bool) {
	root := path[len(path)-1].Root
	if w.err != nil || w.reported.Has(root) {
		return
	}
	if err := w.deps.Admission.Enter(); err != nil {
		w.err = err
		return
	}
	ok, err := w.hasPin(w.pin)
	w.deps.Admission.Leave()
	if err != nil || !ok {
		w.err, w.gone = err, true
		return
	}
	w.reported.Add(root)
	w.err = w.lost(Lost{Root: root, Pin: w.pin, Path: Path(path), Corrupt: corrupt, Directory: directory})
}

// StillLost reports whether the pin of l still exists and its object is still lost.
func (t *trees) StillLost(ctx context.Context, l Lost) (bool, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return false, err
	}
	defer t.deps.Admission.Leave()
	e, ok, err := t.deps.Backend.Get(l.Root)
	if err != nil {
		return false, fmt.Errorf("look up %s: %w", l.Root, err)
	}
	if ok && !e.Corrupt {
		return false, nil
	}
	return t.hasPin(l.Pin)
}
