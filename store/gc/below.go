package gc

import (
	"context"
	"iter"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// Below yields the objects that the directory top names, and those that the directories below it
// name: files and directories, stored or not, some more than once. It reads directories and no other
// content, with RAM bounded as for a collection. A directory that is missing or damaged ends the
// listing with an error, not_found or corrupt, as nobody knows what is below it. A file names nothing.
func (g *Collector) Below(ctx context.Context, top b3.Root) iter.Seq2[b3.Root, error] {
	return func(yield func(b3.Root, error) bool) {
		var failed error
		ended, first := false, true
		w := walker{g: g, pause: func(ctx context.Context) error { return ctx.Err() }}
		fail := func(o status.Outcome) func([]Step) {
			return func(path []Step) {
				if failed == nil {
					failed = status.Errorf(o, "the directory %s below %s is not whole here", path[len(path)-1].Root, top)
				}
			}
		}
		w.damaged, w.absent = fail(status.Corrupt), fail(status.NotFound)
		w.visit = func(root b3.Root) bool {
			if first { // that is top
				first = false
				return false
			}
			ended = failed == nil && !yield(root, nil)
			return ended || failed != nil
		}
		_, _, err := w.walk(ctx, top)
		if err == nil {
			err = failed
		}
		if err != nil && !ended {
			yield(b3.Root{}, err)
		}
	}
}
