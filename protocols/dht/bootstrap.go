package dht

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/sync/errgroup"
)

// SeedInfo is a configured seed and how it does.
type SeedInfo struct {
	ID          peer.ID
	Addrs       []ma.Multiaddr
	Connected   bool
	LastSuccess time.Time // of a dial; zero: never
	LastError   string    // of the last dial; empty when it succeeded
	Tries       int       // dials since the last success
}

// tiers are the waits between rounds while seeds are missing (SPEC §5), ± 20 %.
var tiers = [...]time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}

const (
	seedDialTimeout = 5 * time.Second
	seedDialSpace   = 200 * time.Millisecond // between the starts of two dials, ± 20 %
	seedParallel    = 4
	stable          = time.Minute // connected for so long, a loss starts at the first tier again
)

// dialer is what the bootstrapper needs of a host.
type dialer interface {
	connect(ctx context.Context, info peer.AddrInfo) error
	connected(p peer.ID) bool
	// onLost calls f, which does not block, after a connection was lost.
	onLost(f func()) (stop func())
}

// bootstrapper keeps connections to the seeds. kad-dht hears of every peer
// that speaks its protocol by itself, so a connection is all it takes.
//
// Every round dials the seeds that are not connected, in random order; after a
// round with seeds missing the next comes a tier later. Losing the last seed
// starts a round soon, at the first tier if the node had been connected for a
// while, else where the tiers stand: a seed that accepts and hangs up is not
// dialled in a loop.
type bootstrapper struct {
	dial dialer
	m    *metrics
	log  *slog.Logger
	list []peer.AddrInfo // without this node

	mu    sync.Mutex
	state map[peer.ID]SeedInfo
}

func newBootstrapper(self peer.ID, seeds []peer.AddrInfo, d dialer, m *metrics, log *slog.Logger) *bootstrapper {
	b := &bootstrapper{dial: d, m: m, log: log, state: make(map[peer.ID]SeedInfo)}
	b.list = slices.DeleteFunc(slices.Clone(seeds), func(s peer.AddrInfo) bool { return s.ID == self })
	for _, s := range b.list {
		b.state[s.ID] = SeedInfo{ID: s.ID, Addrs: s.Addrs}
	}
	return b
}

// run bootstraps until ctx ends.
func (b *bootstrapper) run(ctx context.Context) {
	if len(b.list) == 0 {
		return
	}
	lost := make(chan struct{}, 1)
	stop := b.dial.onLost(func() {
		select {
		case lost <- struct{}{}:
		default:
		}
	})
	defer stop()

	tier := 0
	var up time.Time // when the first seed was connected; zero: none is
	for {
		missing := b.round(ctx)
		wait := tiers[len(tiers)-1]
		if missing > 0 {
			wait = tiers[tier]
			tier = min(tier+1, len(tiers)-1)
		}
		if missing < len(b.list) && up.IsZero() {
			up = time.Now()
		}
		timer := time.NewTimer(jitter(wait, 0.2))
		for waiting := true; waiting; {
			select {
			case <-timer.C:
				waiting = false
			case <-lost:
				if up.IsZero() || b.connectedSeeds() > 0 {
					continue
				}
				if time.Since(up) >= stable {
					tier = 0
				}
				up = time.Time{}
				timer.Reset(jitter(tiers[tier], 0.2))
				tier = min(tier+1, len(tiers)-1)
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
}

// round dials the seeds that are not connected and returns how many are
// missing after it.
func (b *bootstrapper) round(ctx context.Context) (missing int) {
	var dials errgroup.Group
	dials.SetLimit(seedParallel)
	first := true
	for _, i := range rand.Perm(len(b.list)) {
		seed := b.list[i]
		if b.dial.connected(seed.ID) {
			continue
		}
		if !first && !sleep(ctx, jitter(seedDialSpace, 0.2)) {
			break
		}
		first = false
		dials.Go(func() error { b.try(ctx, seed); return nil })
	}
	_ = dials.Wait() // no call returns an error
	connected := b.connectedSeeds()
	b.m.seeds.Set(float64(connected))
	return len(b.list) - connected
}

// try dials one seed and remembers what came of it.
func (b *bootstrapper) try(ctx context.Context, seed peer.AddrInfo) {
	dctx, cancel := context.WithTimeout(ctx, seedDialTimeout)
	defer cancel()
	err := b.dial.connect(dctx, seed)
	if ctx.Err() != nil {
		return // the service stops: this says nothing about the seed
	}
	b.mu.Lock()
	st := b.state[seed.ID]
	tries := st.Tries + 1
	if err == nil {
		st.LastSuccess, st.LastError, st.Tries = time.Now(), "", 0
	} else {
		st.LastError, st.Tries = err.Error(), tries
	}
	b.state[seed.ID] = st
	b.mu.Unlock()

	if err == nil {
		b.m.bootstrap.WithLabelValues("ok").Inc()
		b.log.Debug("connected to a seed", "seed", seed.ID)
		return
	}
	b.m.bootstrap.WithLabelValues("failed").Inc()
	level := slog.LevelDebug
	if tries == 1 {
		level = slog.LevelWarn // once per loss: the tiers go on in silence
	}
	b.log.Log(ctx, level, "a seed cannot be reached", "seed", seed.ID, "error", err)
}

func (b *bootstrapper) connectedSeeds() int {
	n := 0
	for _, s := range b.list {
		if b.dial.connected(s.ID) {
			n++
		}
	}
	return n
}

// seeds lists the seeds in the order of the configuration.
func (b *bootstrapper) seeds() []SeedInfo {
	infos := make([]SeedInfo, len(b.list))
	b.mu.Lock()
	for i, s := range b.list {
		infos[i] = b.state[s.ID]
	}
	b.mu.Unlock()
	for i := range infos {
		infos[i].Connected = b.dial.connected(infos[i].ID)
	}
	return infos
}

// hostDialer is the dialer of a real host.
type hostDialer struct{ h host.Host }

func (d hostDialer) connect(ctx context.Context, info peer.AddrInfo) error {
	return d.h.Connect(ctx, info)
}

func (d hostDialer) connected(p peer.ID) bool {
	return d.h.Network().Connectedness(p) == network.Connected
}

func (d hostDialer) onLost(f func()) (stop func()) {
	n := &network.NotifyBundle{DisconnectedF: func(network.Network, network.Conn) { f() }}
	d.h.Network().Notify(n)
	return func() { d.h.Network().StopNotify(n) }
}
