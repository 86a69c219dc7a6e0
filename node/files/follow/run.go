package follow

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"allium/internal/jitter"
	"allium/protocols/status"
)

const (
	// firstRetry and lastRetry bound the wait after an update that failed. It doubles each time.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// maxAbandoned is the maximum number of updates in a row that are given up because the name says something
	// newer. The next one is brought to its end, so that a name that changes all the time is followed, too.
	maxAbandoned = 3
)

// Target is the version that a name stands for at a time.
type Target struct {
	Key string // the address of the version, or a path below one
	Seq uint64 // the number of the record
	Err error  // why it says nothing; Key is empty then
}

// Observer is told of what [Run] does, by one goroutine.
type Observer interface {
	// Begun says that an update begins.
	Begun(t Target)
	// Done says that the directory is at what the name says, and what an update did for that; nil: there
	// was nothing to do, because the name says the same as before.
	Done(t Target, s *Stats)
	// Failed says that the name says nothing, or that an update failed. It is tried again.
	Failed(err error)
}

// Run updates a directory whenever targets yields a new target, until ctx ends. A failed update is tried again. An
// update is abandoned if there is a newer target before the directory was changed. If a name says nothing, the
// directory stays as it is. It returns the error of ctx.
func Run(ctx context.Context, d *Dir, s Source, targets iter.Seq[Target], o Options, tell Observer) error {
	r := &running{d: d, s: s, o: o, tell: tell}
	r.targets.news = make(chan struct{}, 1) // bound: one, that there is a new target
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() {
		for t := range targets {
			r.targets.put(t)
		}
	})
	retry := time.NewTimer(0)
	retry.Stop()
	for {
		select {
		case <-r.targets.news:
			if !r.changed() {
				continue
			}
		case <-retry.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		retry.Stop()
		if wait := r.work(ctx); wait > 0 {
			retry.Reset(wait)
		}
	}
}

// errNewer ends an update because the name says something newer.
var errNewer error = status.Errorf(status.Stale, "the name says something newer")

// running is a running Run.
type running struct {
	d    *Dir
	s    Source
	o    Options
	tell Observer

	want      Target // the directory is to be at
	at        string // the key that the directory is at; empty: not known
	refused   string // the key of a version that is not tried again
	tries     int    // updates that failed in a row
	abandoned int    // updates that were abandoned in a row

	targets targets
}

// targets passes targets from the goroutine that reads them to the one that updates the directory.
type targets struct {
	news chan struct{}

	mu     sync.Mutex // lock: leaf
	latest Target
	lost   bool     // there was an error since the last target without one was taken up
	update underWay // its key is empty if there is none
}

// underWay is an update of the directory.
type underWay struct {
	key      string
	cancel   context.CancelCauseFunc
	mayLeave bool // it may be abandoned for a newer target
}

// put takes a new target, and gives up the update under way if it is for another one.
func (q *targets) put(t Target) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.latest = t
	q.lost = q.lost || t.Err != nil
	other := t.Err == nil && t.Key != q.update.key && q.update.mayLeave
	if q.update.key != "" && (other || status.Of(t.Err) == status.Gone) {
		q.update.cancel(errNewer)
	}
	select {
	case q.news <- struct{}{}:
	default:
	}
}

// take returns the latest target. lost reports an error since the last target without one was taken.
func (q *targets) take() (t Target, lost bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t, lost = q.latest, q.lost
	q.lost = t.Err != nil
	return t, lost
}

// begin notes that an update begins. It is abandoned at once if it may be and there is a newer target.
func (q *targets) begin(u underWay) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.update = u
	if newer := q.latest; newer.Err == nil && newer.Key != u.key && u.mayLeave {
		u.cancel(errNewer)
	}
}

// end notes that the update has ended.
func (q *targets) end() { q.begin(underWay{}) }

// changed takes up the latest target, and reports whether there is work to do.
func (r *running) changed() bool {
	t, lost := r.targets.take()
	if t.Err != nil {
		if status.Of(t.Err) == status.Gone {
			r.want = Target{}
		}
		r.tell.Failed(t.Err)
		return false
	}
	waits := t.Key == r.want.Key && r.tries > 0 && !lost // for the next try
	if t.Key != r.want.Key {
		r.tries = 0
	}
	r.want = t
	switch {
	case t.Key == r.at:
		r.tell.Done(t, nil)
		return false
	case waits, t.Key == r.refused:
		return false
	}
	return true
}

// work updates the directory, and returns the time after which it is tried again; 0: it is not.
func (r *running) work(ctx context.Context) time.Duration {
	if r.want.Key == "" || r.want.Key == r.at {
		return 0
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.targets.begin(underWay{r.want.Key, cancel, r.abandoned < maxAbandoned})
	r.tell.Begun(r.want)
	stats, err := r.d.Update(ctx, r.s, r.want.Key, r.o)
	r.targets.end()
	switch {
	case err == nil:
		r.at, r.refused, r.tries, r.abandoned = r.want.Key, "", 0, 0
		r.tell.Done(r.want, &stats)
		return 0
	case errors.Is(context.Cause(ctx), errNewer):
		r.abandoned++
		return 0 // there is news
	case ctx.Err() != nil:
		return 0
	}
	r.at = "" // it may be between two versions
	r.tell.Failed(err)
	if o := status.Of(err); o == status.BodyCap || o == status.BadRequest {
		r.refused = r.want.Key
		return 0
	}
	wait := jitter.Spread(min(firstRetry<<min(r.tries, 16), lastRetry))
	r.tries++
	return wait
}
