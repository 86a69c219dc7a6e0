package gc

import (
	"context"
	"iter"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
)

// Below yields the addresses of Refs.
func (t *trees) Below(ctx context.Context, top b3.Root) iter.Seq2[b3.Root, error] {
	return func(yield func(b3.Root, error) bool) {
		for ref, err := range t.Refs(ctx, top) {
			if !yield(ref.Root, err) {
				return
			}
		}
	}
}

// Refs yields the objects that the directory top names, and those that the directories below it name:
// files, directories and their parts, stored or not, each once as far as two manifest.Seen tell. A
// directory comes before it is read. Refs reads directories and no other content, each once, however often
// it is named. If a directory is missing or damaged, nobody knows what is below it: an error in the last pair
// says so, not_found or corrupt. A file names nothing.
func (t *trees) Refs(ctx context.Context, top b3.Root) iter.Seq2[manifest.Ref, error] {
	return func(yield func(manifest.Ref, error) bool) {
		l := newListing(t, yield)
		l.skipTop = true
		if l.walk(ctx, top); l.failed != nil && !l.ended {
			yield(manifest.Ref{}, l.failed)
		}
	}
}

// Kept yields the objects that pins lead to, of those pins that which accepts: their roots and what Refs yields below
// them, each once as far as two manifest.Seen tell. For a missing or damaged directory it yields an error instead of
// the objects below, and goes on. Any other error ends it.
func (t *trees) Kept(ctx context.Context, which func(meta.Pin) bool) iter.Seq2[b3.Root, error] {
	return func(yield func(b3.Root, error) bool) {
		l := newListing(t, func(ref manifest.Ref, _ error) bool { return yield(ref.Root, nil) })
		for p, err := range t.deps.Pins(ctx) {
			switch {
			case err != nil:
				yield(b3.Root{}, err)
				return
			case !which(p):
				continue
			case !p.Recursive:
				l.ended = l.objects.Add(p.Root) && !yield(p.Root, nil)
			default:
				l.walk(ctx, p.Root)
			}
			if l.ended {
				return
			}
			if err := l.failed; err != nil && (!yield(p.Root, err) || ctx.Err() != nil) {
				return
			}
			l.failed = nil
		}
	}
}

// listing yields objects of trees.
type listing struct {
	walker
	objects manifest.Seen // that were yielded
	yield   func(manifest.Ref, error) bool
	skipTop bool
	ended   bool  // yield returned false
	failed  error // the first of the tree being walked
}

func newListing(t *trees, yield func(manifest.Ref, error) bool) *listing {
	l := &listing{yield: yield}
	l.walker = walker{trees: t, pause: func(ctx context.Context) error { return ctx.Err() }}
	fail := func(o status.Outcome) func([]Step) {
		return func(path []Step) {
			if l.failed == nil {
				l.failed = status.Errorf(o, "the directory %s below %s is not whole here",
					path[len(path)-1].Root, path[0].Root)
			}
		}
	}
	l.damaged, l.absent = fail(status.Corrupt), fail(status.NotFound)
	l.visit = func(ref manifest.Ref) bool {
		if l.skipTop {
			l.skipTop = false
			return false
		}
		l.ended = l.objects.Add(ref.Root) && !l.yield(ref, nil)
		return l.ended
	}
	return l
}

// walk yields the objects of one tree. An error is in failed.
func (l *listing) walk(ctx context.Context, top b3.Root) {
	_, _, err := l.walker.walk(ctx, top)
	if l.failed == nil {
		l.failed = err
	}
}
