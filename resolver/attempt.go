package resolver

import (
	"context"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/admission"
	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
)

// finalError marks an error that no other source can mend: of this node's own
// store, or of content that is verified and makes no sense.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }
func (e *finalError) Unwrap() error { return e.err }

// final marks err, which may be nil.
func final(err error) error {
	if err == nil {
		return nil
	}
	return &finalError{err}
}

// isFinal reports whether err is marked.
func isFinal(err error) bool {
	_, ok := errors.AsType[*finalError](err)
	return ok
}

// job is something to get from whoever has it.
type job struct {
	root     b3.Root // for errors
	lookupID string
	tried    *tried // kept by jobs that go on where an earlier one ended
	// attempt asks one peer for what is still missing. It returns nil when
	// nothing is, and says whether anything verified came of it.
	attempt func(ctx context.Context, p peer.ID) (progress bool, err error)
}

// overSources gives the job to one source after another until it is done.
// Sources that lie, do not have it, or stood still are not asked again; the
// others, such as busy ones, are gone through up to Config.Tries times, with
// pauses of U[50,100] ms · 2^n up to 2 s between (SPEC §2). Progress starts the
// count anew, so that a long transfer survives any number of cuts.
func (r *Resolver) overSources(ctx context.Context, src *sources, j job) error {
	for try := 0; ; try++ {
		progress, again, err := r.round(ctx, src, j)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errExhausted) {
			return err
		}
		if progress {
			try = 0
		}
		if !again || try+1 >= r.cfg.Tries {
			return j.tried.error(j.root, j.lookupID, src.failure())
		}
		r.m.retries.Inc()
		if err := admission.Sleep(ctx, admission.Backoff(try)); err != nil {
			return err
		}
	}
}

var errExhausted = errors.New("no source left")

// round goes through the sources once. It returns nil when the job is done,
// errExhausted when no source is left, and any error that no other source can
// mend at once. again is true when some source is worth another round.
func (r *Resolver) round(ctx context.Context, src *sources, j job) (progress, again bool, err error) {
	for i := 0; ; i++ {
		p, ok, err := src.at(ctx, i)
		if err != nil {
			return progress, false, err
		}
		if !ok {
			return progress, again, errExhausted
		}
		if j.tried.lost[p.ID] {
			continue
		}
		r.dialer.AddAddrs(p)
		moved, err := j.attempt(ctx, p.ID)
		progress = progress || moved
		if err == nil {
			return progress, false, nil
		}
		if isFinal(err) || ctx.Err() != nil {
			return progress, false, err
		}
		o := status.Of(err)
		r.m.failures.WithLabelValues(o.String()).Inc()
		r.log.Debug("provider failed", "root", j.root, "peer", p.ID, "lookup_id", j.lookupID, "reason", o, "err", err)
		j.tried.note(p.ID, err)
		if worthRetrying(o, moved) {
			again = true
		} else {
			j.tried.lost[p.ID] = true
		}
	}
}

// worthRetrying reports whether the source of that outcome may do better soon.
func worthRetrying(o status.Outcome, moved bool) bool {
	switch o {
	case status.Corrupt, status.BreakerOpen:
		return false
	case status.Timeout:
		return moved // a peer that stood still has cost enough
	}
	switch o.Retry() {
	case status.RetryYes, status.RetryAfter, status.RetryElsewhere, status.RetryMaybe:
		return true
	}
	return false
}

// get sends one request to one peer, in its turn, behind the peer's breaker and
// under a watchdog that ends it when nothing verified arrives for
// Config.StallTimeout. sent is called when the request goes out. An error of the
// sink is returned as it is.
func (r *Resolver) get(ctx context.Context, p peer.ID, req object.GetRequest, sink object.Sink, sent func()) error {
	done, err := r.targets.enter(ctx, p)
	if err != nil {
		return err
	}
	verdict := errUnjudged // stays so if the sink panics
	defer func() { done(verdict) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sent()
	w := &watched{sink: sink, patience: r.cfg.StallTimeout}
	if req.SizeProof {
		w.groups = -1
	}
	w.dog = time.AfterFunc(w.patience, func() {
		cancel(status.Errorf(status.Timeout, "no progress for %s", w.patience))
	})
	defer w.dog.Stop()
	err = r.objects.Get(ctx, p, req, w)
	switch cause := context.Cause(ctx); {
	case w.err != nil:
		err = w.err
	case err != nil && cause != nil && status.Of(cause) == status.Timeout:
		err = cause
	}
	if verdict = err; w.groups > 0 && status.Of(err) != status.Corrupt {
		verdict = nil // it was of use, whatever came then
	}
	return err
}

// have asks p how much it has of root.
func (r *Resolver) have(ctx context.Context, p peer.ID, root b3.Root) (object.Presence, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.StallTimeout)
	defer cancel()
	got, err := r.objects.Have(ctx, p, []b3.Root{root})
	if err != nil {
		return object.Absent, err
	}
	return got[0], nil
}

var errUnjudged = final(status.Errorf(status.Internal, "resolver: the request did not end"))

// watched passes a sink's calls on, holds the watchdog off while the sink works
// and keeps the error the sink stopped with.
type watched struct {
	sink     object.Sink
	dog      *time.Timer
	patience time.Duration
	groups   int // that came, the one of a size proof left out
	err      error
}

func (w *watched) Begin(i int, size int64) error {
	return w.call(func() error { return w.sink.Begin(i, size) })
}

func (w *watched) Item(i int, p b3.Proved) error {
	if !p.IsParent() {
		w.groups++
	}
	return w.call(func() error { return w.sink.Item(i, p) })
}

func (w *watched) End(i int, err error) error {
	return w.call(func() error { return w.sink.End(i, err) })
}

func (w *watched) call(f func() error) error {
	w.dog.Stop()
	err := f()
	w.dog.Reset(w.patience)
	if err != nil {
		w.err = err
	}
	return err
}
