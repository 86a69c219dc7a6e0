package seeds

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/internal/jitter"
)

// loop runs rounds until ctx ends.
func (b *Bootstrapper) loop(ctx context.Context) {
	lost := make(chan struct{}, 1)
	stop := b.deps.Dialer.OnLost(func() {
		select {
		case lost <- struct{}{}:
		default:
		}
	})
	defer stop()
	save := time.NewTimer(jitter.Spread(saveEvery))
	defer save.Stop()

	tier := 0
	next := func() time.Duration { // returns the interval of the current tier and moves to the next
		wait := jitter.Spread(tiers[tier])
		tier = min(tier+1, len(tiers)-1)
		return wait
	}
	var up time.Time // when the node became connected to a seed or remembered peer; zero: it is not
	for {
		missing, held := b.round(ctx)
		wait := jitter.Spread(tiers[len(tiers)-1])
		if missing {
			wait = next()
		}
		if held && up.IsZero() {
			up = time.Now()
		}
		timer := time.NewTimer(wait)
		for waiting := true; waiting; {
			select {
			case <-timer.C:
				waiting = false
			case <-save.C:
				b.remember(time.Now())
				b.store(ctx)
				save.Reset(jitter.Spread(saveEvery))
			case <-b.changed:
				tier, waiting = 0, false
			case <-lost:
				b.forgetConnections()
				if up.IsZero() || b.held() {
					continue
				}
				if time.Since(up) >= stable {
					tier = 0
				}
				up = time.Time{}
				timer.Reset(next())
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
}

// round dials the missing seeds. missing reports that another round is needed soon, and held
// that a seed or a remembered peer is connected.
func (b *Bootstrapper) round(ctx context.Context) (missing, held bool) {
	b.reload(ctx)
	b.forgetConnections()
	list := b.seeds()
	d := newDials()
	for _, i := range rand.Perm(len(list)) {
		s := list[i]
		if !s.usable(b.deps.Now()) {
			continue
		}
		if b.deps.Dialer.Connected(s.ID) {
			b.update(s.ID, (*seedState).met)
			d.group.Go(func() error { b.ask(ctx, s.ID); return nil })
		} else if !d.start(ctx, func() { b.dialSeed(ctx, s) }) {
			break
		}
	}
	_ = d.group.Wait() // no call returns an error
	if !b.held() {
		b.fallback(ctx, d)
	}
	b.store(ctx)

	connected := 0
	for _, s := range list {
		if b.deps.Dialer.Connected(s.ID) {
			connected++
		} else if s.usable(b.deps.Now()) {
			missing = true
		}
	}
	b.m.connected.Set(float64(connected))
	held = b.held()
	return missing || !held && b.Remembered() > 0, held
}

// dialSeed dials one seed, records the result and asks it for peers.
func (b *Bootstrapper) dialSeed(ctx context.Context, s seed) {
	err := b.dial(ctx, s.AddrInfo)
	if ctx.Err() != nil {
		return // the node stops: the error says nothing about the seed
	}
	count(b.m.dials, err)
	if err == nil {
		b.update(s.ID, (*seedState).reached)
		b.log.Debug("connected to a seed", "seed", s.ID)
		b.ask(ctx, s.ID)
		return
	}
	if b.deps.Explain != nil {
		err = b.deps.Explain(s.ID, err)
	}
	level := slog.LevelDebug
	b.update(s.ID, func(st *seedState) {
		if !st.warned {
			level = slog.LevelWarn // warn once per loss
		}
		st.lastError, st.tries, st.warned = err.Error(), st.tries+1, true
	})
	b.log.Log(ctx, level, "a seed cannot be reached", "seed", s.ID, "error", err)
}

// reached records a successful dial.
func (st *seedState) reached() {
	st.lastSuccess, st.lastError, st.tries, st.warned = time.Now(), "", 0, false
}

// met records an existing connection. If the last dial failed or none succeeded yet, another
// part of the node has reached the seed since.
func (st *seedState) met() {
	if st.lastError != "" || st.lastSuccess.IsZero() {
		st.reached()
	}
}

// dial connects to a peer within dialTimeout.
func (b *Bootstrapper) dial(ctx context.Context, info peer.AddrInfo) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return b.deps.Dialer.Connect(ctx, info)
}

// fallback dials some of the remembered peers.
func (b *Bootstrapper) fallback(ctx context.Context, d *dials) {
	for _, p := range b.fallbacks(time.Now()) {
		if !d.start(ctx, func() {
			err := b.dial(ctx, p)
			if ctx.Err() == nil {
				count(b.m.fallback, err)
				b.log.Debug("dialed a remembered peer", "peer", p.ID, "error", err)
			}
		}) {
			break
		}
	}
	_ = d.group.Wait() // no call returns an error
}

// held reports whether a seed or a remembered peer is connected.
func (b *Bootstrapper) held() bool {
	for _, s := range b.seeds() {
		if b.deps.Dialer.Connected(s.ID) {
			return true
		}
	}
	for _, k := range b.remembered() {
		if b.deps.Dialer.Connected(k.ID) {
			return true
		}
	}
	return false
}

// dials spaces and bounds the dials of one round.
type dials struct {
	group errgroup.Group
	begun bool
}

func newDials() *dials {
	d := &dials{}
	d.group.SetLimit(dialParallel)
	return d
}

// start runs dial once the last dial is long enough ago and fewer than dialParallel run. It
// returns false if ctx has ended.
func (d *dials) start(ctx context.Context, dial func()) bool {
	if d.begun && !jitter.Sleep(ctx, jitter.Spread(dialSpace)) {
		return false
	}
	d.begun = true
	d.group.Go(func() error { dial(); return nil })
	return true
}
