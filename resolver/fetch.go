package resolver

import (
	"context"
	"errors"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
	"allium/resolver/transfer"
	"allium/resolver/tree"
)

// FetchOptions name the peers that may have an object, and a function that is
// told of the progress.
type FetchOptions struct {
	Sources
	// Progress is called repeatedly while the fetch runs and once at its end, by
	// the goroutine that called Fetch or FetchTree. It must not block.
	Progress func(Progress)
}

// Info is a fetched object.
type Info struct {
	Root     b3.Root
	Size     int64 // bytes
	Source   Source
	Resumed  int64 // bytes already stored by an earlier fetch that was cut short
	Peers    int   // number of peers that sent something
	Duration time.Duration
	LookupID status.LookupID // names the record of how the object was found
}

// TreeInfo is the result of FetchTree.
type TreeInfo = tree.Info

// Fetch brings the object root into the store. When it returns nil the object is
// durable. It joins a fetch of the same root that already runs. When ctx ends
// first, Fetch returns; the fetch continues if other callers wait for it.
// Otherwise the store keeps what has arrived and the next fetch continues from
// there.
//
// Errors carry the worst outcome of the providers (corrupt before upstream before
// timeout before not_found), busy, or the outcome of the store.
func (r *Resolver) Fetch(ctx context.Context, root b3.Root, opt FetchOptions) (Info, error) {
	begun := time.Now()
	if err := r.filter.Object(root); err != nil {
		return Info{}, r.ring.Fail(trace.Fetch, trace.Key{Root: root}, begun, "", err)
	}
	info, here := localInfo(ctx, r.local, root)
	switch {
	case here == nil:
		info.LookupID = r.ring.HitUnder(
			status.ParentOf(ctx), trace.Fetch, trace.Key{Root: root}, trace.Store, time.Since(begun))
		return info, nil
	case !transfer.NeedsFetch(here):
		return info, r.ring.Fail(trace.Fetch, trace.Key{Root: root}, begun, trace.Store, here)
	}
	work, l, done, err := r.begin(ctx)
	if err != nil {
		return Info{}, r.ring.Fail(trace.Fetch, trace.Key{Root: root}, begun, "", err)
	}
	defer done()
	w, err := r.transfers.JoinWhole(work, l, root, opt.Sources, nil)
	if err != nil {
		return Info{}, drainingError(work, err)
	}
	defer w.Leave()
	w.NoteDamage(here)
	size, err := w.Wait(opt.Progress)
	if err != nil {
		return Info{}, status.WithLookup(transfer.Unmended(here, drainingError(work, err)), w.LookupID())
	}
	r.m.observe("fetch", begun)
	if size < 0 { // the object became local meanwhile
		info, err := localInfo(ctx, r.local, root)
		info.LookupID = w.LookupID()
		return info, status.WithLookup(err, w.LookupID())
	}
	return Info{
		Root: root, Size: size, Source: SourcePeer, Resumed: w.Resumed(), Peers: len(w.Senders()),
		Duration: time.Since(begun), LookupID: w.LookupID(),
	}, nil
}

// Settle waits until no transfer of root runs. A transfer leases the object for a while
// after it became whole.
func (r *Resolver) Settle(ctx context.Context, root b3.Root) error {
	return r.transfers.Settle(ctx, root)
}

// localInfo describes an object of the store.
func localInfo(ctx context.Context, local Local, root b3.Root) (Info, error) {
	if err := local.AwaitDurable(ctx, root); err != nil {
		return Info{}, err
	}
	obj, err := local.Open(ctx, root)
	if err != nil {
		return Info{}, err
	}
	info := Info{Root: root, Size: obj.Size(), Source: SourceLocal}
	return info, obj.Close()
}

// drainingError returns ErrDraining, with the lookup of err, for an error of work that
// the end of Run cancelled, and err otherwise.
func drainingError(work context.Context, err error) error {
	if err != nil && work.Err() != nil && errors.Is(context.Cause(work), providers.ErrDraining) {
		id, _ := status.ParseLookupID(status.LookupOf(err))
		return status.WithLookup(providers.ErrDraining, id)
	}
	return err
}

// FetchTree brings the directory root and everything below it into the store.
// When it returns nil all of it is durable. If root is not a directory, FetchTree
// fetches that one object.
//
// Small objects come in requests of up to 256, large files one by one. Several
// requests of each kind run at a time, while directories are still being read.
// Local objects are not requested. Memory is bounded for a tree of any size.
//
// A fetch that was cut short continues when FetchTree is called again. The root
// is stored last, so an unfinished tree never looks whole. Two fetches of one root
// run one after the other. The caller protects the tree from collection: it pins
// the root, or holds a lease from before the call.
//
// Errors are those of Fetch for the first object that failed, and bad_request for
// a malformed directory, which no provider can mend. The counts in TreeInfo are
// right also when FetchTree fails.
func (r *Resolver) FetchTree(ctx context.Context, root b3.Root, opt FetchOptions) (TreeInfo, error) {
	begun := time.Now()
	if err := r.filter.Object(root); err != nil {
		return TreeInfo{Root: root}, r.ring.Fail(trace.Tree, trace.Key{Root: root}, begun, "", err)
	}
	work, l, done, err := r.begin(ctx)
	if err != nil {
		return TreeInfo{Root: root}, r.ring.Fail(trace.Tree, trace.Key{Root: root}, begun, "", err)
	}
	defer done()
	lookup := r.ring.BeginUnder(trace.ParentOf(ctx), trace.Tree, trace.Key{Root: root}, 0)
	lookup.Call()
	r.observe(TransferEvent{Root: root, Tree: true, LookupID: lookup.ID()})
	info, err := r.trees.Fetch(work, l, root, tree.Options{
		Sources: opt.Sources, Lookup: lookup, Progress: opt.Progress,
	})
	err = lookup.Mark(drainingError(work, err))
	lookup.End(err)
	info.Duration = time.Since(begun)
	r.observe(TransferEvent{
		Root: root, Tree: true, LookupID: info.LookupID, Ended: true, Outcome: status.Of(err), Bytes: info.FetchedBytes,
		Took: info.Duration,
	})
	if err != nil {
		return info, err
	}
	r.m.observe("tree", begun)
	return info, nil
}
