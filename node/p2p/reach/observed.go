package reach

import (
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	basichost "github.com/libp2p/go-libp2p/p2p/host/basic"
	"github.com/libp2p/go-libp2p/p2p/host/observedaddrs"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"go.uber.org/fx"

	"allium/internal/ipgroup"
)

const (
	observedFor = 10 * time.Minute // what a peer saw counts for so long after its connection has ended
	maxGone     = 32               // ended connections that count, the latest
)

// observers tells the library's manager of observed addresses of the end of a connection observedFor
// later. The manager forgets at once what the peer saw, and needs four of them: a quiet node would
// lose its public address whenever connections are trimmed.
type observers struct {
	network.Network
	manager network.Notifiee
	told    *network.NotifyBundle

	mu   sync.Mutex // lock: leaf
	gone []gone     // oldest first, at most maxGone; guarded by mu
}

// gone is a connection that has ended. It stands for all of one IP address to one of the node's.
type gone struct {
	conn     network.Conn
	from, to string
	at       time.Time
}

// NewObserved is the constructor of what a host knows of the addresses at which its peers see it.
func (s *Service) NewObserved(
	bus event.Bus, n *swarm.Swarm, life fx.Lifecycle,
) (basichost.ObservedAddrsManager, error) {
	m, err := observedaddrs.NewManager(bus, n)
	if err != nil {
		return nil, err
	}
	o := &observers{Network: n}
	s.observers.Store(o)
	life.Append(fx.StartStopHook(func() { m.Start(o) }, m.Close))
	return m, nil
}

// Notify implements network.Network. The manager calls it once.
func (o *observers) Notify(manager network.Notifiee) {
	o.manager = manager
	o.told = &network.NotifyBundle{DisconnectedF: func(_ network.Network, c network.Conn) { o.ended(c, time.Now()) }}
	o.Network.Notify(o.told)
}

// StopNotify implements network.Network.
func (o *observers) StopNotify(network.Notifiee) { o.Network.StopNotify(o.told) }

// ended keeps what a peer saw over a connection that has ended. The latest connection from an address counts.
func (o *observers) ended(c network.Conn, now time.Time) {
	e := gone{conn: c, to: c.LocalMultiaddr().String(), at: now}
	from, ok := ipgroup.Address(c.RemoteMultiaddr())
	if !ok || IsRelayed(c.RemoteMultiaddr()) {
		o.manager.Disconnected(o.Network, c)
		return
	}
	e.from = from.String()
	o.mu.Lock()
	older := slices.IndexFunc(o.gone, func(g gone) bool { return g.from == e.from && g.to == e.to })
	if older < 0 && len(o.gone) == maxGone {
		older = 0
	}
	var drop []gone
	if older >= 0 {
		drop = []gone{o.gone[older]}
		o.gone = slices.Delete(o.gone, older, older+1)
	}
	o.gone = append(o.gone, e)
	o.mu.Unlock()
	o.forget(drop)
}

// expire forgets what was seen over connections that ended observedFor ago. A nil o does nothing.
func (o *observers) expire(now time.Time) {
	if o == nil {
		return
	}
	o.mu.Lock()
	n := 0
	for n < len(o.gone) && now.Sub(o.gone[n].at) >= observedFor {
		n++
	}
	old := slices.Clone(o.gone[:n])
	o.gone = slices.Delete(o.gone, 0, n)
	o.mu.Unlock()
	o.forget(old)
}

// forget tells the manager of ended connections.
func (o *observers) forget(old []gone) {
	for _, g := range old {
		o.manager.Disconnected(o.Network, g.conn)
	}
}
