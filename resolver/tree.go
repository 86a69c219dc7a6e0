package resolver

import (
	"context"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// TreeInfo is what FetchTree did.
type TreeInfo struct {
	Root         b3.Root
	Directory    bool  // false: the root was one object and no directory
	Objects      int64 // files, directories and parts of directories, the root included
	Bytes        int64 // of those
	Fetched      int64 // objects that came from peers
	FetchedBytes int64
	Resumed      int64 // bytes that an earlier fetch, cut short, had left of those objects
	Skipped      int64 // objects that were local already, or occurred before in the tree
	Peers        int   // that sent something
	Duration     time.Duration
	LookupID     string
}

// FetchTree brings the directory root and everything below it into the store.
// When it returns nil all of it is durable. A root that is no directory is
// fetched as the one object it is.
//
// Small objects come up to 256 in one request, large files one by one, several
// of each at a time, while directories are still being read; what is local is
// not asked for. Memory is bounded whatever the tree. A fetch that was cut
// short goes on where it was when it is called again: what has arrived stays,
// and the root is stored last, so that an unfinished tree is never taken for a
// whole one. Keeping it is the caller's business: it should pin the root, or
// hold a lease from before the call. Two fetches of one root take turns.
//
// Errors are those of Fetch, for the first object that could not be had;
// bad_request when a directory is malformed, which no provider can mend. The
// counts in TreeInfo are right also then.
func (r *Resolver) FetchTree(ctx context.Context, root b3.Root, opt FetchOptions) (TreeInfo, error) {
	if err := r.denied(root); err != nil {
		return TreeInfo{Root: root}, err
	}
	begun := time.Now()
	work, l, done, err := r.begin(ctx)
	if err != nil {
		return TreeInfo{Root: root}, err
	}
	defer done()
	info, err := r.fetchTree(work, l, root, opt)
	info.Duration = time.Since(begun)
	if err != nil {
		return info, why(work, err)
	}
	r.m.observe("tree", begun)
	return info, nil
}

func (r *Resolver) fetchTree(ctx context.Context, l *life, root b3.Root, opt FetchOptions) (TreeInfo, error) {
	info := TreeInfo{Root: root}
	endTurn, err := r.turn(ctx, root)
	if err != nil {
		return info, err
	}
	defer endTurn()
	release, err := r.treeGate.Acquire(ctx)
	if err != nil {
		return info, err
	}
	defer release()
	defer r.local.Lease(root)()

	seen, err := simplelru.NewLRU[b3.Root, struct{}](seenObjects, nil)
	if err != nil {
		return info, err
	}
	t := &tree{
		r: r, life: l, root: root, from: opt.Sources, lookupID: newLookupID(), report: opt.Progress,
		src: r.newSources(l, root, opt.Sources), seen: seen,
		results: make(chan result, r.cfg.TreeRequests+r.cfg.TreeLarge), // bound: requests in flight
	}
	defer t.src.close()
	err = t.run(ctx)
	return t.info(), err
}

// turn waits until no other fetch of the tree root runs.
func (r *Resolver) turn(ctx context.Context, root b3.Root) (end func(), err error) {
	mine := make(chan struct{})
	for {
		r.mu.Lock()
		other := r.trees[root]
		if other == nil {
			r.trees[root] = mine
		}
		r.mu.Unlock()
		if other == nil {
			return func() {
				r.mu.Lock()
				delete(r.trees, root)
				r.mu.Unlock()
				close(mine)
			}, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// run fetches the tree. The workers it starts have ended when it returns.
func (t *tree) run(ctx context.Context) error {
	node, err := t.fetchRoot(ctx)
	switch {
	case err != nil:
		return err
	case node == nil:
		return t.fetchFile(ctx)
	}
	work, cancel := context.WithCancel(ctx)
	err = t.schedule(work, node)
	cancel()
	t.wg.Wait()
	if err != nil {
		return err
	}
	if err := t.r.local.Flush(ctx); err != nil {
		return err
	}
	if t.rootFetched {
		if err := t.storeRoot(ctx); err != nil {
			return err
		}
	}
	t.tell()
	return nil
}

// storeRoot stores the root, when everything below it is durable.
func (t *tree) storeRoot(ctx context.Context) error {
	if err := t.r.local.Put(ctx, t.root, t.rootBytes); err != nil {
		return err
	}
	return t.r.local.Flush(ctx)
}

// fetchFile fetches a root that is no directory. Its bytes are here already
// when it is small; a large one comes as any object does.
func (t *tree) fetchFile(ctx context.Context) error {
	t.file = true
	switch {
	case !t.rootFetched:
	case t.rootBytes != nil:
		if err := t.storeRoot(ctx); err != nil {
			return err
		}
	default:
		if err := t.fetchLargeRoot(ctx); err != nil {
			return err
		}
	}
	t.tell()
	return nil
}

func (t *tree) fetchLargeRoot(ctx context.Context) error {
	w, err := t.r.join(ctx, t.life, t.root, Whole(t.from), true, t.lookupID)
	if err != nil {
		return err
	}
	defer w.leave()
	if err := w.land(t.report); err != nil {
		return err
	}
	if w.t.ingest == nil { // it had become local
		_, size, err := t.readLocal(ctx, t.root)
		t.found(size)
		t.skip(size)
		return err
	}
	t.found(w.t.size)
	t.objects.Add(1)
	t.bytes.Add(w.t.size)
	t.came(w.t)
	return nil
}

// fetchRoot gets the root, from the store or from peers, into memory. It
// returns nil when that is no directory; rootBytes is then nil too if it is
// larger than one can be.
func (t *tree) fetchRoot(ctx context.Context) (*manifest.Node, error) {
	p, size, err := t.readLocal(ctx, t.root)
	if here := err; absent(here) {
		t.rootFetched = true
		p, err = t.askRoot(ctx)
		err = unmended(here, err)
	}
	if err != nil {
		return nil, err
	}
	switch {
	case !t.rootFetched:
		t.found(size)
		t.skip(size)
	case p != nil:
		t.found(int64(len(p)))
		t.got(int64(len(p)))
	}
	t.rootBytes = p
	if node, err := manifest.Decode(p); err == nil {
		return node, nil
	}
	return nil, nil // a root is untyped: what does not decode is a file (SPEC §1)
}

// readLocal returns a local object and its size; no bytes when it is larger
// than a manifest.
func (t *tree) readLocal(ctx context.Context, root b3.Root) (p []byte, size int64, err error) {
	obj, err := t.r.local.Open(ctx, root)
	if err != nil {
		return nil, 0, err
	}
	defer obj.Close()
	if size = obj.Size(); size > manifest.MaxNode {
		return nil, size, nil
	}
	p = make([]byte, size)
	if _, err := obj.Reader().ReadAt(p, 0); err != nil {
		return nil, 0, obj.Failed(err)
	}
	return p, size, nil
}
