package tree

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
	"allium/resolver/providers"
)

const (
	// maxAsked is the maximum number of sources that are asked at once for the same objects.
	maxAsked = 3
	// stalled is after how many times Config.HedgeAfter without an item a source is late that has begun to answer.
	stalled = 4
)

var (
	errExhausted = errors.New("no source left")
	// errBeaten ends an attempt, because another source sends what is missing.
	errBeaten = status.Errorf(status.Canceled, "another provider was faster")
)

// asking is one source being asked.
type asking struct {
	cancel context.CancelCauseFunc
	round  context.Context // of storing items that have arrived: a faster source does not end it
	tell   func(event)
	beaten bool // another source was faster

	mu     sync.Mutex // lock: leaf
	peer   peer.ID    // empty while a source is looked for
	begun  time.Time  // when the request began; before that, when a source was looked for
	latest time.Time  // when the latest item arrived; zero: none did
}

// event is a change of an asking: its first item has arrived, or it has ended.
type event struct {
	of       *asking
	ended    bool // otherwise its first item has arrived
	none     bool // there is no other source
	progress bool
	err      error
}

// heard records that an item arrives.
func (a *asking) heard() {
	a.mu.Lock()
	first := a.latest.IsZero()
	a.latest = time.Now()
	a.mu.Unlock()
	if first {
		a.tell(event{of: a})
	}
}

// begin records that the request begins.
func (a *asking) begin(p peer.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peer, a.begun = p, time.Now()
}

// source returns the peer that is asked, or the empty ID while a source is looked for.
func (a *asking) source() peer.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peer
}

// due returns when the source is late.
func (a *asking) due(hedgeAfter time.Duration) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.latest.IsZero() {
		return a.begun.Add(hedgeAfter)
	}
	return a.latest.Add(stalled * hedgeAfter)
}

// round asks the sources of a job, each once: the next when one has failed, or beside one that is late. The first
// that sends something ends the requests to the others, which may be asked once more after it.
type round struct {
	j        *job
	progress bool // verified bytes arrived
	again    bool // some source is worth another round

	asking sync.WaitGroup
	events chan event
	asked  []*asking // that have not ended
	dry    bool      // there was no other source when the last one was looked for
}

func newRound(j *job) *round {
	j.from.begin(j.lost)
	return &round{j: j, events: make(chan event)}
}

// run returns nil when the job is done, errExhausted when no source is left, and any error that no other source
// can mend at once.
func (r *round) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.asking.Wait()
	defer cancel()
	late := time.NewTimer(0)
	defer late.Stop()
	r.start(ctx)
	for len(r.asked) > 0 {
		late.Reset(time.Until(r.due()))
		select {
		case e := <-r.events:
			if !e.ended {
				if !e.of.beaten { // its first item may have waited until another source was faster
					r.beat(e.of)
				}
				continue
			}
			if done, err := r.ended(ctx, e); done {
				return err
			}
			if !r.dry && !r.due().After(time.Now()) {
				r.start(ctx)
			}
		case <-late.C:
			if !r.due().After(time.Now()) {
				r.start(ctx)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errExhausted
}

// due returns when another source is to be asked: when all that are asked are late.
func (r *round) due() (at time.Time) {
	if r.dry || len(r.asked) == maxAsked {
		return time.Now().Add(time.Hour) // an event comes first
	}
	for _, a := range r.asked {
		if d := a.due(r.j.t.f.cfg.Load().HedgeAfter); d.After(at) {
			at = d
		}
	}
	return at
}

// start asks the next source.
func (r *round) start(ctx context.Context) {
	done := ctx.Done()
	a := &asking{begun: time.Now(), tell: func(e event) {
		select {
		case r.events <- e:
		case <-done:
		}
	}}
	a.round = ctx
	ctx, a.cancel = context.WithCancelCause(ctx)
	r.asked = append(r.asked, a)
	r.asking.Go(func() {
		defer a.cancel(nil)
		e := event{of: a, ended: true}
		err := r.j.t.f.pool.Guard(r.j.t.trace.ID().String(), func() error {
			r.j.ask(ctx, &e)
			return nil
		})
		if err != nil {
			e.err = err
		}
		a.tell(e)
	})
}

// ask asks the next source and puts into e how that ended.
func (j *job) ask(ctx context.Context, e *event) {
	p, ok, err := j.from.next(ctx)
	if e.none, e.err = !ok, err; !ok || err != nil {
		return
	}
	e.of.begin(p.ID)
	j.t.f.pool.AddAddrs(p)
	e.progress, e.err = j.attempt(ctx, e.of)
}

// beat ends the requests to all sources but the one that has begun to answer.
func (r *round) beat(first *asking) {
	t, now := r.j.t, time.Now()
	for _, a := range r.asked {
		if a == first || a.beaten {
			continue
		}
		a.beaten = true
		if p := a.source(); p != "" && !a.due(t.f.cfg.Load().HedgeAfter).After(now) {
			t.f.pool.Silent(p)
			t.peers.late(p)
		}
		a.cancel(errBeaten)
	}
}

// ended records how a request ended. done says that the round has ended with err.
func (r *round) ended(ctx context.Context, e event) (done bool, err error) {
	j, p := r.j, e.of.source()
	r.asked = slices.DeleteFunc(r.asked, func(a *asking) bool { return a == e.of })
	r.progress = r.progress || e.progress
	r.dry = e.none
	switch {
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	case e.err == nil && !e.none, providers.IsFinal(e.err):
		j.t.peers.prompt(p)
		return true, e.err
	case e.none, p == "":
	case e.of.beaten && status.Of(e.err) != status.Corrupt:
		r.again = r.again || !j.from.putBack(p)
	default:
		switch {
		case e.progress:
			j.t.peers.prompt(p)
		case providers.MayReturn(e.err):
			j.t.peers.late(p)
		}
		r.again = j.failed(p, e.progress, e.err) || r.again
	}
	return false, nil
}
