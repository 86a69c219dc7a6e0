package tree

import (
	"context"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/internal/patience"
	"allium/protocols/status"
	"allium/resolver/providers"
)

// job is a request that sources are asked for until it is done. One goroutine runs it.
type job struct {
	t    *tree
	from *supply
	// attempt asks one peer for what is missing. It returns nil when nothing is missing any more. progress says
	// that verified bytes arrived. It calls a.heard for each item. Several attempts may run at once.
	attempt func(ctx context.Context, a *asking) (progress bool, err error)

	attempts providers.Attempts   // how the sources did
	failures map[peer.ID]error    // of sources, the latest
	lost     map[peer.ID]struct{} // sources that are not asked again
}

// run gives the job to one source after another until it is done; see round. A source
// that lied, lacks the object or stalled is not asked again. The others, such as
// busy ones, are tried up to Config.Tries times, with pauses of U[50,100] ms · 2^n
// up to 2 s between (SPEC §2). Progress resets the count, so that a long transfer
// survives any number of cuts. When no source is left and one of them may return, a fetch that
// has begun looks for sources again, as long as package patience says.
func (j *job) run(ctx context.Context) error {
	defer j.from.end()
	f, latest := j.t.f, time.Now()
	for try, waits := 0, 0; ; try++ {
		r := newRound(j)
		err := r.run(ctx)
		if !errors.Is(err, errExhausted) {
			return err
		}
		if r.progress {
			try, waits, latest = 0, 0, time.Now()
		}
		pause := limits.Backoff(try)
		if !r.again || try+1 >= f.cfg.Load().Tries {
			left := time.Until(patience.Until(ctx, false, latest))
			if left <= 0 || !j.attempts.MayReturn() {
				return j.from.fail(&j.attempts)
			}
			pause = min(left, patience.Pause(waits))
			waits++
		}
		f.pool.Retried()
		if limits.Sleep(ctx, pause) != nil {
			return context.Cause(ctx)
		}
		if waits > 0 {
			j.renew()
		}
	}
}

// renew lets the sources that may return be asked again, and others be looked for.
func (j *job) renew() {
	for p, err := range j.failures {
		if providers.MayReturn(err) {
			delete(j.lost, p)
			j.t.f.pool.Redial(p)
		}
	}
	j.t.src.Renew()
}

// failed records that a source did not do the job. It reports whether it is worth another round.
func (j *job) failed(p peer.ID, progress bool, err error) (again bool) {
	root := j.from.first()
	j.t.f.pool.Failed(root, p, j.t.trace.ID().String(), err)
	j.attempts.Note(p, err)
	if status.Of(err) == status.Corrupt {
		j.t.src.Refuted(p, err)
	}
	if j.failures == nil {
		j.failures, j.lost = map[peer.ID]error{}, map[peer.ID]struct{}{}
	}
	j.failures[p] = err
	if providers.WorthRetrying(err, progress) {
		return true
	}
	j.lost[p] = struct{}{}
	j.t.trace.GiveUp(p, err)
	return false
}
