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
	Peers                 int // that sent something
}

// Info is a fetched object.
type Info struct {
	Root     b3.Root
	Size     int64 // bytes
	Source   Source
	Peers    int // that sent something
	Duration time.Duration
	LookupID string // empty when the object was local
}

// progressInterval is the time between two calls of Progress.
const progressInterval = 100 * time.Millisecond

// Fetch brings the object root into the store; when it returns nil the object
// is durable. It joins a fetch that runs already. When its ctx ends before,
// Fetch returns, and the fetch goes on if others wait for it.
//
// Errors carry the outcome of what the providers did (corrupt before upstream
// before timeout before not_found), busy, or that of the store.
func (r *Resolver) Fetch(ctx context.Context, root b3.Root, opt FetchOptions) (Info, error) {
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
	f, err := r.join(work, l, root, opt.Sources, newLookupID())
	if err != nil {
		return Info{}, why(work, err)
	}
	defer f.leave()
	if err := f.land(work, opt.Progress); err != nil {
		return Info{}, unmended(here, why(work, err))
	}
	r.m.observe("fetch", begun)
	if f.ingest == nil { // it had become local
		return r.localInfo(ctx, root)
	}
	return Info{Root: root, Size: f.size, Source: SourcePeer, Peers: int(f.peers.Load()), Duration: time.Since(begun), LookupID: f.lookupID}, nil
}

func (r *Resolver) localInfo(ctx context.Context, root b3.Root) (Info, error) {
	obj, err := r.local.Open(ctx, root)
	if err != nil {
		return Info{}, err
	}
	info := Info{Root: root, Size: obj.Size(), Source: SourceLocal}
	return info, obj.Close()
}

// land waits for the end of the flight.
func (f *flight) land(ctx context.Context, report func(Progress)) error {
	var tick <-chan time.Time
	if report != nil {
		t := time.NewTicker(progressInterval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-tick:
			report(f.progress())
		case <-f.done:
			if f.err == nil && report != nil {
				p := f.progress()
				p.Objects = 1
				report(p)
			}
			return f.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *flight) progress() Progress {
	p := Progress{ObjectsKnown: 1, Bytes: f.bytes.Load(), Peers: int(f.peers.Load())}
	select {
	case <-f.known:
		p.BytesKnown = f.size
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
