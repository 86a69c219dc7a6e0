package resolver

import (
	"context"
	"sync/atomic"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
)

// flight is the one fetch of a whole object, whoever waits for it. It runs
// under Run's context; its users keep it in the air.
//
// Invariant: next counts the groups, from the first on, that are verified and
// in the ingest. Only the flight's own goroutine advances it.
type flight struct {
	r        *Resolver
	root     b3.Root
	lookupID string
	src      *sources
	cancel   context.CancelFunc

	// Guarded by r.mu.
	users int
	quit  bool // the last user left too early: nobody may board any more
	whole bool // all bytes are here: it lands even when everybody leaves

	known  chan struct{} // closed once size and ingest are set
	size   int64         // proved
	ingest Ingest
	next   atomic.Int64
	bytes  atomic.Int64 // of verified groups

	done chan struct{} // closed when it is over; err is set before
	err  error

	by    map[peer.ID]struct{} // who sent something; the flight's own
	peers atomic.Int64         // how many those are
}

// join boards the flight of root and starts one when there is none. l admitted
// the caller, who calls leave once.
func (r *Resolver) join(ctx context.Context, l *life, root b3.Root, from Sources, lookupID string) (*flight, error) {
	for {
		f, fresh := r.board(l, root, from, lookupID)
		switch {
		case fresh != nil:
			l.wg.Go(func() { f.run(fresh) })
			return f, nil
		case f != nil:
			f.src.add(from.Peers...)
			return f, nil
		}
		// The flight in the air was given up; the next one waits for its end.
		if err := r.awaitQuit(ctx, root); err != nil {
			return nil, err
		}
	}
}

// board takes a seat. fresh is the context of a new flight, which the caller
// runs; both are nil when the flight in the air was given up.
func (r *Resolver) board(l *life, root b3.Root, from Sources, lookupID string) (f *flight, fresh context.Context) {
	src := r.newSources(l, root, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.flights[root]; f != nil {
		if f.quit {
			return nil, nil
		}
		f.users++
		return f, nil
	}
	ctx, cancel := context.WithCancel(l.ctx)
	f = &flight{
		r: r, root: root, lookupID: lookupID, src: src, cancel: cancel, users: 1,
		known: make(chan struct{}), done: make(chan struct{}), by: map[peer.ID]struct{}{},
	}
	r.flights[root] = f
	return f, ctx
}

// boardExisting is board for a caller who wants no new flight.
func (r *Resolver) boardExisting(root b3.Root) *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.flights[root]
	if f == nil || f.quit {
		return nil
	}
	f.users++
	return f
}

func (r *Resolver) awaitQuit(ctx context.Context, root b3.Root) error {
	r.mu.Lock()
	f := r.flights[root]
	r.mu.Unlock()
	if f == nil {
		return nil
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave gives the seat up. Without users, and with bytes still missing, the
// flight ends.
func (f *flight) leave() {
	f.r.mu.Lock()
	f.users--
	quit := f.users == 0 && !f.whole
	f.quit = f.quit || quit
	f.r.mu.Unlock()
	if quit {
		f.cancel()
	}
}

// allHere notes that the last bytes arrived, before any reader can see them.
func (f *flight) allHere() {
	f.r.mu.Lock()
	f.whole = true
	f.r.mu.Unlock()
}

func (f *flight) run(ctx context.Context) {
	err := f.r.guard(func() error { return f.fly(ctx) })
	if err != nil && f.src.life.ctx.Err() != nil {
		err = errDraining
	}
	if err != nil && f.ingest != nil {
		f.ingest.Abort(err)
	}
	f.r.mu.Lock()
	delete(f.r.flights, f.root)
	f.r.mu.Unlock()
	f.cancel()
	f.src.close()
	f.err = err
	close(f.done)
}

// fly fetches the object, unless it turns out to be local, and commits it.
func (f *flight) fly(ctx context.Context) error {
	release, err := f.r.fetchGate.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	defer f.r.local.Lease(f.root)()
	// A flight that landed between the caller's look and its boarding.
	here, err := f.r.local.Has(ctx, []b3.Root{f.root})
	if err != nil || here[0] {
		return err
	}
	err = f.r.overSources(ctx, f.src, job{root: f.root, lookupID: f.lookupID, tried: newTried(), attempt: f.attempt})
	if err != nil {
		return err
	}
	return f.ingest.Commit(ctx)
}

// attempt asks p for the rest of the object, and for the proof of its size when
// that is still a claim.
func (f *flight) attempt(ctx context.Context, p peer.ID) (progress bool, err error) {
	before := f.next.Load()
	req := object.GetRequest{Objs: []b3.Root{f.root}, SizeProof: f.ingest == nil}
	if before > 0 {
		req.Ranges = []b3.Range{{Start: before * b3.GroupSize, End: -1}}
	}
	s := &flightSink{f: f, ctx: ctx}
	err = f.r.get(ctx, p, req, s)
	progress = f.next.Load() > before
	if progress {
		f.by[p] = struct{}{}
		f.peers.Store(int64(len(f.by)))
	}
	switch {
	case f.complete():
		// Whatever went wrong after the last group does not concern us.
		f.r.served.Add(f.root, p)
		return progress, nil
	case err != nil:
		return progress, err
	case s.end != nil:
		return progress, s.end
	}
	return progress, status.Errorf(status.Upstream, "the answer ended early")
}

func (f *flight) complete() bool {
	return f.ingest != nil && f.next.Load() == b3.Groups(f.size)
}

// flightSink takes one answer.
type flightSink struct {
	f   *flight
	ctx context.Context
	end error // what the peer said of the object
}

// Begin implements object.Sink. The size is a claim; it only has to agree with
// one that was proved.
func (s *flightSink) Begin(_ int, size int64) error {
	if f := s.f; f.ingest != nil && size != f.size {
		return status.Errorf(status.Corrupt, "%d bytes are claimed, %d were proved", size, f.size)
	}
	return nil
}

// Item implements object.Sink. Until the size is proved, items are those of the
// proof; they come again in the walk that follows.
func (s *flightSink) Item(_ int, p b3.Proved) error {
	f := s.f
	if f.ingest == nil {
		if !p.SizeProved() {
			return nil
		}
		ingest, err := f.r.local.Ingest(s.ctx, f.root, p.Size())
		if err != nil {
			return final(err)
		}
		f.r.sizes.Add(f.root, p.Size())
		f.size, f.ingest = p.Size(), ingest
		close(f.known)
		return nil
	}
	if p.IsParent() {
		return final(f.ingest.Write(p))
	}
	next := f.next.Load()
	if p.Group() != next {
		return status.Errorf(status.Upstream, "group %d came in place of %d", p.Group(), next)
	}
	if next+1 == b3.Groups(f.size) {
		f.allHere()
	}
	if err := f.ingest.Write(p); err != nil {
		return final(err)
	}
	f.next.Store(next + 1)
	f.bytes.Add(int64(len(p.Data())))
	f.r.m.fetchBytes.Add(float64(len(p.Data())))
	return nil
}

// End implements object.Sink.
func (s *flightSink) End(_ int, err error) error {
	s.end = err
	return nil
}
