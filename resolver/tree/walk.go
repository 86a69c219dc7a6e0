package tree

import (
	"context"
	"sync"
	"time"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
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

// tree is one Fetch. The goroutine that called it runs schedule, which alone
// touches the fields that are not marked as shared. Workers get their input by value
// and answer through results.
//
// The walk is depth first as far as possible: the unread directories are a stack. Files
// found on the way gather in batches.
type tree struct {
	f        *Fetcher
	tasks    providers.Tasks
	root     b3.Root
	from     providers.Sources
	src      *providers.Candidates // shared
	trace    *trace.Lookup
	report   func(transfer.Progress)
	dirsSeen manifest.Seen // a tree may name a directory in very many places
	seen     manifest.Seen // files
	dirsRead int           // directories that were not in dirsSeen

	file        bool   // the root is a file
	rootBytes   []byte // nil when the root is too large for a directory
	rootFetched bool

	unread unread
	dirs   []manifest.Ref // to request: a stack
	files  files          // to request

	inFlight [kinds]int // requests and transfers, by kind
	wg       sync.WaitGroup
	results  chan result

	count count   // shared
	peers senders // shared
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

// schedule reads the tree and keeps the workers busy until all is done.
func (t *tree) schedule(ctx context.Context, rootRefs []manifest.Ref) error {
	t.unread.push(cursor{root: t.root, refs: rootRefs})
	tick := time.NewTicker(transfer.ProgressInterval)
	defer tick.Stop()
	for {
		if err := t.expand(ctx); err != nil {
			return err
		}
		t.dispatch(ctx)
		if t.inFlight == [kinds]int{} {
			return nil
		}
		select {
		case res := <-t.results:
			if err := t.finish(res); err != nil {
				return err
			}
		case <-tick.C:
			t.reportProgress()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// expand looks at entries until there is enough work for the workers.
func (t *tree) expand(ctx context.Context) error {
	for len(t.unread.dirs) > 0 && len(t.files.ready) < 2*t.f.cfg.Load().Requests &&
		len(t.files.large) < routed && len(t.dirs) < dirsWaiting {
		top := &t.unread.dirs[len(t.unread.dirs)-1]
		if top.refs == nil {
			refs, err := t.reread(ctx, top.root)
			if err != nil {
				return err
			}
			top.refs = refs
			t.unread.refs += len(refs)
		}
		if err := t.route(ctx, t.unread.take()); err != nil {
			return err
		}
	}
	if len(t.unread.dirs)+len(t.dirs)+t.inFlight[fetchDirs] == 0 {
		t.files.closeBatch() // there are no further entries
	}
	return nil
}

// reread returns the entries of a directory that is local or was put.
func (t *tree) reread(ctx context.Context, root b3.Root) ([]manifest.Ref, error) {
	p := t.rootBytes
	if root != t.root {
		var err error
		p, _, err = t.readLocal(ctx, root)
		if status.Of(err) == status.NotFound { // put, not yet visible
			if err = t.f.local.Flush(ctx); err == nil {
				p, _, err = t.readLocal(ctx, root)
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
func (t *tree) route(ctx context.Context, refs []manifest.Ref) error {
	fresh := make([]manifest.Ref, 0, len(refs))
	roots := make([]b3.Root, 0, len(refs))
	for _, ref := range refs {
		t.count.found(ref.Size)
		seen := &t.seen
		if ref.Manifest {
			seen = &t.dirsSeen
		}
		if !seen.Add(ref.Root) {
			t.count.skip(ref.Size)
			continue
		}
		if ref.Manifest {
			t.dirsRead++
		}
		if t.dirsRead > maxDirs {
			return status.Errorf(status.BadRequest,
				"more than %d directories are below %s, too many for one fetch. Fetch parts of it", maxDirs, t.root)
		}
		if err := t.f.filter.Object(ref.Root); err != nil {
			return err
		}
		fresh = append(fresh, ref)
		roots = append(roots, ref.Root)
	}
	if len(fresh) == 0 {
		return nil
	}
	here, err := t.f.local.Has(ctx, roots)
	if err != nil {
		return err
	}
	for i, ref := range fresh {
		switch {
		case here[i]:
			t.count.skip(ref.Size)
			if ref.Manifest {
				t.unread.push(cursor{root: ref.Root})
			}
		case ref.Manifest:
			t.dirs = append(t.dirs, ref)
		default:
			t.files.add(ref)
		}
	}
	return nil
}

// dispatch starts workers up to the bounds on requests in flight. Directories come
// first, because they name further objects. While there are files, at most
// dirRequests ask for directories, so that each request asks for many.
func (t *tree) dispatch(ctx context.Context) {
	for t.inFlight[fetchFiles]+t.inFlight[fetchDirs] < t.f.cfg.Load().Requests {
		files := t.files.hasBatch()
		switch {
		case len(t.dirs) > 0 && (!files || t.inFlight[fetchDirs] < dirRequests):
			t.start(ctx, fetchDirs, t.popDirs())
		case files:
			t.start(ctx, fetchFiles, t.files.popBatch())
		default:
			t.dispatchLarge(ctx)
			return
		}
	}
	t.dispatchLarge(ctx)
}

func (t *tree) dispatchLarge(ctx context.Context) {
	for t.inFlight[fetchLarge] < t.f.cfg.Load().Large && len(t.files.large) > 0 {
		ref := t.files.popLarge()
		t.inFlight[fetchLarge]++
		t.wg.Go(func() {
			err := t.f.pool.Guard(t.trace.ID().String(), func() error { return t.fetchLarge(ctx, ref) })
			t.results <- result{kind: fetchLarge, err: err}
		})
	}
}

// start gives refs to a worker.
func (t *tree) start(ctx context.Context, kind work, refs []manifest.Ref) {
	t.inFlight[kind]++
	b := &batch{t: t, refs: refs, done: make([]bool, len(refs))}
	t.wg.Go(func() {
		err := t.f.pool.Guard(t.trace.ID().String(), func() error { return b.fetch(ctx) })
		t.results <- result{kind: kind, dirs: b.dirs, err: err}
	})
}

// popDirs takes as many directories from the top of the stack as one request may
// ask for.
func (t *tree) popDirs() []manifest.Ref {
	from, bytes := len(t.dirs), int64(0)
	for from > 0 && len(t.dirs)-from < object.MaxGet && bytes+t.dirs[from-1].Size <= maxBatchBytes {
		from--
		bytes += t.dirs[from].Size
	}
	refs := append([]manifest.Ref(nil), t.dirs[from:]...)
	t.dirs = t.dirs[:from]
	return refs
}

// finish records the result of a worker.
func (t *tree) finish(res result) error {
	t.inFlight[res.kind]--
	for _, c := range res.dirs {
		t.unread.push(c)
	}
	return res.err
}
