package clock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/env"
	"allium/node/readiness/clock"
	"allium/protocols/session"
)

// conn is a connection to a peer.
type conn struct {
	network.Conn
	id   peer.ID
	addr string
	dir  network.Direction
}

func (c conn) RemotePeer() peer.ID           { return c.id }
func (c conn) RemoteMultiaddr() ma.Multiaddr { return ma.StringCast("/ip4/" + c.addr + "/tcp/1") }
func (c conn) Stat() network.ConnStats {
	return network.ConnStats{Stats: network.Stats{Direction: c.dir}}
}

// rig is a watch over a clock that a test may set, among peers with clocks.
type rig struct {
	*clock.Watch
	mu    sync.Mutex
	skew  time.Duration // of this machine
	conns []network.Conn
	ahead map[peer.ID]time.Duration // clocks of peers; nobody else answers
	old   time.Time                 // sessions were opened then, before this machine slept; zero: now
}

func (r *rig) set(skew time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.skew = skew
}

func (r *rig) peer(id, addr string, dir network.Direction, ahead time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.conns = append(r.conns, conn{id: peer.ID(id), addr: addr, dir: dir})
	r.ahead[peer.ID(id)] = ahead
}

// watch runs f with a watch that knows these seeds.
func watch(t *testing.T, f func(t *testing.T, r *rig), seeds ...peer.ID) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{ahead: map[peer.ID]time.Duration{}}
		r.Watch = clock.New(clock.Deps{
			Env: env.Env{Now: func() time.Time {
				r.mu.Lock()
				defer r.mu.Unlock()
				return time.Now().Add(r.skew)
			}},
			Conns: func() []network.Conn {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.conns
			},
			Ask: func(_ context.Context, p peer.ID) (session.Clock, bool, error) {
				r.mu.Lock()
				defer r.mu.Unlock()
				ahead, ok := r.ahead[p]
				if !ok {
					return session.Clock{}, false, errors.New("it is away")
				}
				if !r.old.IsZero() {
					return session.Clock{ReceivedAt: r.old, PeerTime: r.old}, true, nil
				}
				now := time.Now()
				return session.Clock{ReceivedAt: now, PeerTime: time.UnixMilli(now.Add(ahead).UnixMilli())}, true, nil
			},
			Seeds: seeds,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = r.Run(ctx, func() {}) })
		defer wg.Wait()
		defer cancel()
		f(t, r)
	})
}

// is checks the verdict once the peers of now were asked.
func (r *rig) is(t *testing.T, what string, known, wrong, mayExpire bool) {
	t.Helper()
	time.Sleep(11 * time.Second)
	synctest.Wait()
	s := r.State()
	if s.Known != known || s.Wrong() != wrong || r.Wrong() != wrong || r.MayExpire() != mayExpire {
		t.Errorf("%s: %+v, wrong %t, may expire %t", what, s, r.Wrong(), r.MayExpire())
	}
}

// TestThreeGroups: a clock that is set is judged at once by what three networks
// said before; two minutes are allowed.
func TestThreeGroups(t *testing.T) {
	watch(t, func(t *testing.T, r *rig) {
		r.is(t, "alone", false, false, false)
		for i := range 3 {
			r.peer(fmt.Sprint("p", i), fmt.Sprintf("%d.9.0.1", 80+i), network.DirOutbound, 0)
		}
		r.is(t, "among three", true, false, true)
		for _, skew := range []time.Duration{25 * time.Hour, -25 * time.Hour, 121 * time.Second, -121 * time.Second} {
			r.set(skew)
			r.is(t, skew.String(), true, true, false)
			if s := r.State(); (s.Offset - skew).Abs() > time.Second {
				t.Errorf("%s is seen as %s", skew, s.Offset)
			}
		}
		for _, skew := range []time.Duration{0, 119 * time.Second, -119 * time.Second} {
			r.set(skew)
			r.is(t, skew.String(), true, false, true)
		}
	})
}

// TestStrangers: who dials in, and many of one network, have no say.
func TestStrangers(t *testing.T) {
	watch(t, func(t *testing.T, r *rig) {
		for i := range 50 {
			r.peer(fmt.Sprint("in", i), fmt.Sprintf("%d.9.0.1", 20+i), network.DirInbound, 25*time.Hour)
			r.peer(fmt.Sprint("one", i), fmt.Sprintf("80.9.0.%d", i), network.DirOutbound, 25*time.Hour)
		}
		r.is(t, "strangers", false, false, false)
		for i := range 2 {
			r.peer(fmt.Sprint("good", i), fmt.Sprintf("%d.9.0.1", 90+i), network.DirOutbound, 0)
		}
		r.is(t, "two good ones beside", true, false, true)
		time.Sleep(2 * time.Hour)
		r.is(t, "for long", true, false, true)
	})
}

// TestOneSeed: where one seed is configured, it decides; and of it and another
// peer the one that is nearer.
func TestOneSeed(t *testing.T) {
	watch(t, func(t *testing.T, r *rig) {
		r.peer("stranger", "80.9.0.1", network.DirOutbound, time.Hour)
		r.is(t, "no seed", false, false, false)
		r.peer("seed", "127.0.0.1", network.DirOutbound, 0)
		r.is(t, "a seed and a stranger", true, false, true)
		r.set(-72 * time.Hour)
		r.is(t, "wrong by both", true, true, false)
	}, "seed")
}

// TestNobodyTells: after ten minutes a node that is alone trusts its clock.
func TestNobodyTells(t *testing.T) {
	watch(t, func(t *testing.T, r *rig) {
		r.is(t, "at first", false, false, false)
		time.Sleep(10 * time.Minute)
		r.is(t, "later", false, false, true)
	})
}

// TestLocalStrangers: where three public networks were heard, many identities of a
// local one have no say and take no place from them.
func TestLocalStrangers(t *testing.T) {
	watch(t, func(t *testing.T, r *rig) {
		for i := range 3 {
			r.peer(fmt.Sprint("good", i), fmt.Sprintf("%d.9.0.1", 90+i), network.DirOutbound, 0)
		}
		r.is(t, "three good ones", true, false, true)
		for i := range 40 {
			r.peer(fmt.Sprint("lan", i), fmt.Sprintf("192.168.0.%d", i), network.DirOutbound, 25*time.Hour)
		}
		r.is(t, "a local network beside", true, false, true)
		time.Sleep(2 * time.Hour)
		r.is(t, "for long", true, false, true)
		if n := r.State().Voices; n != 3 {
			t.Errorf("%d voices count", n)
		}
	})
}

// TestLocalNetworkAlone: without public networks the peers of a local one decide.
func TestLocalNetworkAlone(t *testing.T) {
	watch(t, func(t *testing.T, r *rig) {
		for i := range 3 {
			r.peer(fmt.Sprint("lan", i), fmt.Sprintf("192.168.0.%d", i), network.DirOutbound, 0)
		}
		r.is(t, "right", true, false, true)
		r.set(time.Hour)
		r.is(t, "wrong", true, true, false)
	})
}

// TestSetWhileAlone: a clock that was set while no peer answers is not trusted at
// once, however long the node has run.
func TestSetWhileAlone(t *testing.T) {
	watch(t, func(t *testing.T, r *rig) {
		for i := range 3 {
			r.peer(fmt.Sprint("p", i), fmt.Sprintf("%d.9.0.1", 80+i), network.DirOutbound, 0)
		}
		time.Sleep(time.Hour)
		r.is(t, "among three", true, false, true)
		r.mu.Lock()
		r.conns, r.ahead, r.skew = nil, nil, 25*time.Hour
		r.mu.Unlock()
		r.is(t, "set, and nobody answers", false, false, false)
		time.Sleep(10 * time.Minute)
		r.is(t, "ten minutes later", false, false, true)
	})
}

// TestSleep: a machine that slept does not hold what was said before against its
// clock for longer than the session lives in which it was said.
func TestSleep(t *testing.T) {
	watch(t, func(t *testing.T, r *rig) {
		for i := range 3 {
			r.peer(fmt.Sprint("p", i), fmt.Sprintf("%d.9.0.1", 80+i), network.DirOutbound, 0)
		}
		r.is(t, "before", true, false, true)
		r.mu.Lock()
		r.skew = time.Hour // time.Now does not count the sleep
		for id := range r.ahead {
			r.ahead[id] = time.Hour
		}
		r.old = time.Now()
		r.mu.Unlock()
		time.Sleep(30 * time.Second)
		r.mu.Lock()
		r.old = time.Time{}
		r.mu.Unlock()
		r.is(t, "after", true, false, true)
	})
}
