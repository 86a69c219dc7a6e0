package tree

import (
	"context"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/resolver/transfer"
)

// The bounds of one tree fetch. Together with Config.Requests they bound its
// memory to about 100 MiB for the worst tree, and a tenth of that for usual ones.
const (
	maxBatchBytes = 8 << 20 // most bytes of one request
	maxBatched    = 1 << 20 // larger files are fetched by a transfer of their own
	minBatch      = 64      // an idle worker starts with so many objects and does not wait for more

	routed      = 256     // refs that are looked up in the store at once
	dirsWaiting = 1024    // most directories that were found and not requested yet
	maxRefs     = 65_536  // most entries of open directories in memory; others are read again later
	dirRequests = 2       // most requests for directories in flight while there are files to request
	maxDirs     = 1 << 24 // most directories of a tree
)

// walk reads a tree below its root and fetches what is missing. The goroutine that called Fetch runs it and alone
// touches its fields. Workers get their input by value and answer through results.
//
// The walk is depth first as far as possible: the unread directories are a stack. Files
// found on the way gather in batches.
type walk struct {
	*tree
	dirsSeen manifest.Seen // a tree may name a directory in very many places
	seen     manifest.Seen // files
	dirsRead int           // directories that were not in dirsSeen

	unread unread
	dirs   []manifest.Ref // to request: a stack
	files  files          // to request

	inFlight [kinds]int // requests and transfers, by kind
	wg       sync.WaitGroup
	results  chan result
}

// cursor is a position in a directory: its refs from pos on were not looked at yet.
// When refs is nil the directory is read again from the store.
type cursor struct {
	root b3.Root
	refs []manifest.Ref
	pos  int
}

// result is the result of a worker.
type result struct {
	kind work
	dirs []cursor // the fetched directories
	err  error
}

// work is the kind of work that a worker does.
type work uint8

const (
	fetchFiles work = iota
	fetchDirs
	fetchLarge
	kinds
)

// newWalk begins a walk at the entries of the root.
func newWalk(t *tree, rootRefs []manifest.Ref) *walk {
	cfg := t.f.cfg.Load()
	w := &walk{tree: t, results: make(chan result, cfg.Requests+cfg.Large)} // bound: requests in flight
	w.unread.push(cursor{root: t.root, refs: rootRefs})
	return w
}

// run walks the tree and fetches what is missing. The workers it starts have ended when it returns.
func (w *walk) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer w.wg.Wait()
	defer cancel()
	return w.schedule(ctx)
}

// schedule reads the tree and keeps the workers busy until all is done.
func (w *walk) schedule(ctx context.Context) error {
	tick := time.NewTicker(transfer.ProgressInterval)
	defer tick.Stop()
	for {
		if err := w.expand(ctx); err != nil {
			return err
		}
		w.dispatch(ctx)
		if w.inFlight == [kinds]int{} {
			return nil
		}
		select {
		case res := <-w.results:
			if err := w.finish(res); err != nil {
				return err
			}
		case <-tick.C:
			w.reportProgress()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// expand looks at entries until there is enough work for the workers.
func (w *walk) expand(ctx context.Context) error {
	for len(w.unread.dirs) > 0 && len(w.files.ready) < 2*w.f.cfg.Load().Requests &&
		len(w.files.large) < routed && len(w.dirs) < dirsWaiting {
		top := &w.unread.dirs[len(w.unread.dirs)-1]
		if top.refs == nil {
			refs, err := w.reread(ctx, top.root)
			if err != nil {
				return err
			}
			top.refs = refs
			w.unread.refs += len(refs)
		}
		if err := w.route(ctx, w.unread.take()); err != nil {
			return err
		}
	}
	if len(w.unread.dirs)+len(w.dirs)+w.inFlight[fetchDirs] == 0 {
		w.files.closeBatch() // there are no further entries
	}
	return nil
}

// reread returns the entries of a directory that is local or was put.
func (w *walk) reread(ctx context.Context, root b3.Root) ([]manifest.Ref, error) {
	p := w.rootBytes
	if root != w.root {
		var err error
		p, _, err = w.readLocal(ctx, root)
		if status.Of(err) == status.NotFound { // put, not yet visible
			if err = w.f.local.Flush(ctx); err == nil {
				p, _, err = w.readLocal(ctx, root)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	refs, err := manifest.Refs(p)
	if err != nil {
		return nil, malformed(root, err)
	}
	return refs, nil
}

// route skips refs that are local or were seen, and puts the others on the list of
// directories, of large files, or into the batch.
func (w *walk) route(ctx context.Context, refs []manifest.Ref) error {
	fresh := make([]manifest.Ref, 0, len(refs))
	roots := make([]b3.Root, 0, len(refs))
	for _, ref := range refs {
		w.count.found(ref.Size)
		seen := &w.seen
		if ref.Manifest {
			seen = &w.dirsSeen
		}
		if !seen.Add(ref.Root) {
			w.count.skip(ref.Size)
			continue
		}
		if ref.Manifest {
			w.dirsRead++
		}
		if w.dirsRead > maxDirs {
			return status.Errorf(status.BadRequest,
				"more than %d directories are below %s, too many for one fetch. Fetch parts of it", maxDirs, w.root)
		}
		if err := w.f.filter.Object(ref.Root); err != nil {
			return err
		}
		fresh = append(fresh, ref)
		roots = append(roots, ref.Root)
	}
	if len(fresh) == 0 {
		return nil
	}
	here, err := w.f.local.Has(ctx, roots)
	if err != nil {
		return err
	}
	for i, ref := range fresh {
		switch {
		case here[i]:
			w.count.skip(ref.Size)
			if ref.Manifest {
				w.unread.push(cursor{root: ref.Root})
			}
		case ref.Manifest:
			w.dirs = append(w.dirs, ref)
		default:
			w.files.add(ref)
		}
	}
	return nil
}

// dispatch starts workers up to the bounds on requests in flight. Directories come
// first, because they name further objects. While there are files, at most
// dirRequests ask for directories, so that each request asks for many.
func (w *walk) dispatch(ctx context.Context) {
	for w.inFlight[fetchFiles]+w.inFlight[fetchDirs] < w.f.cfg.Load().Requests {
		files := w.files.hasBatch()
		switch {
		case len(w.dirs) > 0 && (!files || w.inFlight[fetchDirs] < dirRequests):
			w.start(ctx, fetchDirs, w.popDirs())
		case files:
			w.start(ctx, fetchFiles, w.files.popBatch())
		default:
			w.dispatchLarge(ctx)
			return
		}
	}
	w.dispatchLarge(ctx)
}

func (w *walk) dispatchLarge(ctx context.Context) {
	for w.inFlight[fetchLarge] < w.f.cfg.Load().Large && len(w.files.large) > 0 {
		ref := w.files.popLarge()
		w.inFlight[fetchLarge]++
		w.wg.Go(func() {
			err := w.f.pool.Guard(w.trace.ID().String(), func() error { return w.fetchLarge(ctx, ref) })
			w.results <- result{kind: fetchLarge, err: err}
		})
	}
}

// start gives refs to a worker.
func (w *walk) start(ctx context.Context, kind work, refs []manifest.Ref) {
	w.inFlight[kind]++
	b := &batch{t: w.tree, refs: refs, done: make([]bool, len(refs))}
	w.wg.Go(func() {
		err := w.f.pool.Guard(w.trace.ID().String(), func() error { return b.fetch(ctx) })
		w.results <- result{kind: kind, dirs: b.dirs, err: err}
	})
}

// popDirs takes as many directories from the top of the stack as one request may
// ask for.
func (w *walk) popDirs() []manifest.Ref {
	from, bytes := len(w.dirs), int64(0)
	for from > 0 && len(w.dirs)-from < object.MaxGet && bytes+w.dirs[from-1].Size <= maxBatchBytes {
		from--
		bytes += w.dirs[from].Size
	}
	refs := append([]manifest.Ref(nil), w.dirs[from:]...)
	w.dirs = w.dirs[:from]
	return refs
}

// finish records the result of a worker.
func (w *walk) finish(res result) error {
	w.inFlight[res.kind]--
	for _, c := range res.dirs {
		w.unread.push(c)
	}
	return res.err
}
