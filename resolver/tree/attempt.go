package tree

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
)

// job is a request that is sent to one source after another.
type job struct {
	root     b3.Root // for errors
	trace    *trace.Lookup
	attempts *providers.Attempts // how the sources did; shared by jobs that continue each other
	lost     map[peer.ID]bool    // sources that are not asked again; shared likewise
	// attempt asks one peer for the missing objects. It returns nil when none is
	// missing any more. progress says that verified bytes arrived.
	attempt func(ctx context.Context, p peer.ID) (progress bool, err error)
}

// overSources gives the job to one source after another until it is done. A source
// that lied, lacks the object or stalled is not asked again. The others, such as
// busy ones, are tried up to Config.Tries times, with pauses of U[50,100] ms · 2^n
// up to 2 s between (SPEC §2). Progress resets the count, so that a long transfer
// survives any number of cuts.
func (f *Fetcher) overSources(ctx context.Context, src *providers.Candidates, j job) error {
	for try := 0; ; try++ {
		progress, again, err := f.round(ctx, src, j)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errExhausted) {
			return err
		}
		if progress {
			try = 0
		}
		if !again || try+1 >= f.cfg.Tries {
			return j.attempts.Error(j.root, j.trace.ID().String(), src.Failure())
		}
		f.pool.Retried()
		if err := limits.Sleep(ctx, limits.Backoff(try)); err != nil {
			return err
		}
	}
}

var errExhausted = errors.New("no source left")

// round tries each source once. It returns nil when the job is done, errExhausted
// when no source is left, and any error that no other source can mend at once.
// again says that some source is worth another round.
func (f *Fetcher) round(ctx context.Context, src *providers.Candidates, j job) (progress, again bool, err error) {
	for i := 0; ; i++ {
		p, ok, err := src.At(ctx, i)
		if err != nil {
			return progress, false, err
		}
		if !ok {
			return progress, again, errExhausted
		}
		if j.lost[p.ID] {
			continue
		}
		f.pool.AddAddrs(p)
		progressed, err := j.attempt(ctx, p.ID)
		progress = progress || progressed
		if err == nil {
			return progress, false, nil
		}
		if providers.IsFinal(err) || ctx.Err() != nil {
			return progress, false, err
		}
		f.pool.Failed(j.root, p.ID, j.trace.ID().String(), err)
		j.attempts.Note(p.ID, err)
		if status.Of(err) == status.Corrupt {
			src.Refuted(p.ID, err)
		}
		if providers.WorthRetrying(status.Of(err), progressed) {
			again = true
		} else {
			j.lost[p.ID] = true
			j.trace.GiveUp(p.ID, err)
		}
	}
}
