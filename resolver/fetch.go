package resolver

import (
	"context"
	"errors"
	"time"

	"allium/protocols/b3"
	"allium/resolver/providers"
	"allium/resolver/transfer"
	"allium/resolver/tree"
)

// FetchOptions name the peers that may have an object, and a function that hears
// of its progress.
type FetchOptions struct {
	Sources
	// Progress is called now and then while the fetch runs, and once at its end,
	// by the goroutine that called Fetch or FetchTree. It must not block.
	Progress func(Progress)
}

// Info is a fetched object.
type Info struct {
	Root     b3.Root
	Size     int64 // bytes
	Source   Source
	Resumed  int64 // bytes that an earlier fetch, cut short, had left
	Peers    int   // that sent something
	Duration time.Duration
	LookupID string // empty when the object was local
}

// TreeInfo is what FetchTree did.
type TreeInfo = tree.Info

// Fetch brings the object root into the store; when it returns nil the object
// is durable. It joins a fetch that runs already. When its ctx ends before,
// Fetch returns, and the fetch goes on if others wait for it; if not, what has
// arrived is kept, and the next fetch goes on from there.
//
// Errors carry the outcome of what the providers did (corrupt before upstream
// before timeout before not_found), busy, or that of the store.
func (r *Resolver) Fetch(ctx context.Context, root b3.Root, opt FetchOptions) (Info, error) {
	if err := r.denied(root); err != nil {
		return Info{}, err
	}
	begun := time.Now()
	info, here := r.localInfo(ctx, root)
	if !transfer.Absent(here) {
		return info, here
	}
	work, l, done, err := r.begin(ctx)
	if err != nil {
		return Info{}, err
	}
	defer done()
	w, err := r.transfers.JoinWhole(work, l, root, opt.Sources, newLookupID())
	if err != nil {
		return Info{}, why(work, err)
	}
	defer w.Leave()
	size, err := w.Wait(opt.Progress)
	if err != nil {
		return Info{}, transfer.Unmended(here, why(work, err))
	}
	r.m.observe("fetch", begun)
	if size < 0 { // it had become local
		return r.localInfo(ctx, root)
	}
	return Info{
		Root: root, Size: size, Source: SourcePeer, Resumed: w.Resumed(), Peers: len(w.Senders()),
		Duration: time.Since(begun), LookupID: w.LookupID(),
	}, nil
}

func (r *Resolver) localInfo(ctx context.Context, root b3.Root) (Info, error) {
	obj, err := r.local.Open(ctx, root)
	if err != nil {
		return Info{}, err
	}
	info := Info{Root: root, Size: obj.Size(), Source: SourceLocal}
	return info, obj.Close()
}

// why tells work that Run's end cancelled from work whose caller left.
func why(work context.Context, err error) error {
	if err != nil && work.Err() != nil && errors.Is(context.Cause(work), providers.ErrDraining) {
		return providers.ErrDraining
	}
	return err
}

// FetchTree brings the directory root and everything below it into the store.
// When it returns nil all of it is durable. A root that is no directory is
// fetched as the one object it is.
//
// Small objects come up to 256 in one request, large files one by one, several
// of each at a time, while directories are still being read. Local objects are
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
	info, err := r.trees.Fetch(work, l, root, tree.Options{Sources: opt.Sources, LookupID: newLookupID(), Progress: opt.Progress})
	info.Duration = time.Since(begun)
	if err != nil {
		return info, why(work, err)
	}
	r.m.observe("tree", begun)
	return info, nil
}
