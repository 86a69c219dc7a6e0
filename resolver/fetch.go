package resolver

import (
	"context"
	"errors"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// FetchOptions say who may have an object and who wants to see it arrive.
type FetchOptions struct {
	Sources
	// Progress is called now and then while the fetch runs, and once at its end,
	// by the goroutine that called Fetch or FetchTree. It must not block.
	Progress func(Progress)
}

// Progress is how far a fetch has come. The totals are what is known so far;
// they grow while a directory is being read.
type Progress struct {
	Objects, ObjectsKnown int64 // stored or found to be local, of how many
	Bytes, BytesKnown     int64
	Resumed               int64 // of Bytes, left by an earlier fetch that was cut short
	Peers                 int   // that sent something
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

// progressInterval is the time between two calls of Progress.
const progressInterval = 100 * time.Millisecond

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
	if !absent(here) {
		return info, here
	}
	work, l, done, err := r.begin(ctx)
	if err != nil {
		return Info{}, err
	}
	defer done()
	w, err := r.join(work, l, root, Whole(opt.Sources), true, newLookupID())
	if err != nil {
		return Info{}, why(work, err)
	}
	defer w.leave()
	if err := w.land(opt.Progress); err != nil {
		return Info{}, unmended(here, why(work, err))
	}
	r.m.observe("fetch", begun)
	t := w.t
	if t.ingest == nil { // it had become local
		return r.localInfo(ctx, root)
	}
	return Info{
		Root: root, Size: t.size, Source: SourcePeer, Resumed: t.resumed, Peers: len(t.senders()),
		Duration: time.Since(begun), LookupID: t.lookupID,
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

// land waits until the whole object is stored.
func (w *want) land(report func(Progress)) error {
	var tick <-chan time.Time
	if report != nil {
		t := time.NewTicker(progressInterval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-tick:
			report(w.t.progress())
		case <-w.t.done:
			if w.t.err == nil && report != nil {
				p := w.t.progress()
				p.Objects = 1
				report(p)
			}
			return w.t.err
		case <-w.ctx.Done():
			return w.why(nil)
		}
	}
}

func (t *transfer) progress() Progress {
	p := Progress{ObjectsKnown: 1, Peers: len(t.senders())}
	select {
	case <-t.known:
		p.Bytes, p.BytesKnown, p.Resumed = t.resumed+t.received.Load(), t.size, t.resumed
	default:
	}
	return p
}

// errDraining is the cause of work that Run's end cancelled.
var errDraining = status.Errorf(status.Draining, "resolver: the node is stopping; ask another")

// why tells work that Run's end cancelled from work whose caller left.
func why(work context.Context, err error) error {
	if err != nil && work.Err() != nil && errors.Is(context.Cause(work), errDraining) {
		return errDraining
	}
	return err
}
