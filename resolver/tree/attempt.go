package tree

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver/providers"
)

// job is something to get from one of several peers.
type job struct {
	root     b3.Root // for errors
	lookupID string
	tried    *providers.Attempts // kept by jobs that go on where an earlier one ended
	lost     map[peer.ID]bool    // not to be asked for this object again; kept likewise
	// attempt asks one peer for what is still missing. It returns nil when
	// nothing is, and says whether anything verified came of it.
	attempt func(ctx context.Context, p peer.ID) (progress bool, err error)
}

// overSources gives the job to one source after another until it is done.
// Sources that lie, do not have it, or stood still are not asked again; the
// others, such as busy ones, are gone through up to Config.Tries times, with
// pauses of U[50,100] ms · 2^n up to 2 s between (SPEC §2). Progress starts the
// count anew, so that a long transfer survives any number of cuts.
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
			return j.tried.Error(j.root, j.lookupID, src.Failure())
		}
		f.pool.Retried()
		if err := limits.Sleep(ctx, limits.Backoff(try)); err != nil {
			return err
		}
	}
}

var errExhausted = errors.New("no source left")

// round goes through the sources once. It returns nil when the job is done,
// errExhausted when no source is left, and any error that no other source can
// mend at once. again is true when some source is worth another round.
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
		moved, err := j.attempt(ctx, p.ID)
		progress = progress || moved
		if err == nil {
			return progress, false, nil
		}
		if providers.IsFinal(err) || ctx.Err() != nil {
			return progress, false, err
		}
		f.pool.Failed(j.root, p.ID, j.lookupID, err)
		j.tried.Note(p.ID, err)
		if providers.WorthRetrying(status.Of(err), moved) {
			again = true
		} else {
			j.lost[p.ID] = true
		}
	}
}
