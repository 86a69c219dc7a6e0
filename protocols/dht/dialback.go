package dht

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Bounds of dialling providers back.
const (
	dialBackWorkers = 4
	dialBackQueue   = 256              // providers waiting
	dialBackRate    = 5                // dials per second, with twice as many in a burst
	dialBackTimeout = 3 * time.Second  // of one dial, handshake included
	dialBackAddrs   = 2                // dialled of one provider
	dialBackKnown   = 4096             // providers whose last result is remembered
	reachedFor      = 12 * time.Hour   // how long a provider that was reached counts as reached
	unreachedFor    = 10 * time.Minute // how long one that was not is left alone
)

// dialback finds out which providers can be reached at the address that their
// connection comes from, by a new connection there that is closed at once. It
// never dials another IP address than the one that asked: a record that names
// somebody else's address makes nobody dial there.
//
// Providers wait in a queue that is fair between IP groups; one that finds no
// place counts as one that was not reached.
type dialback struct {
	dial  func(ctx context.Context, p peer.ID, a ma.Multiaddr) error
	store *providerStore
	now   func() time.Time
	m     *metrics
	rate  *limits.Rate
	queue *limits.Lanes[string, call]

	known *lru.Cache[providerAt, verdict]

	mu   sync.Mutex
	wait map[providerAt]struct{} // queued or being dialled; at most dialBackQueue and the workers
}

// providerAt is a provider seen from an IP group.
type providerAt struct {
	id    peer.ID
	group string
}

// verdict is what came of dialling a provider.
type verdict struct {
	reached bool
	until   time.Time
}

// call is a provider to dial, with the record that it brought.
type call struct {
	rec   sealed
	addrs []ma.Multiaddr
}

// dialer returns what dials a peer anew, whatever connections there are; nil
// when the host's network cannot.
func dialer(n network.Network) func(context.Context, peer.ID, ma.Multiaddr) error {
	transports, ok := n.(interface {
		TransportForDialing(ma.Multiaddr) transport.Transport
	})
	if !ok {
		return nil
	}
	return func(ctx context.Context, p peer.ID, a ma.Multiaddr) error {
		t := transports.TransportForDialing(a)
		if t == nil {
			return status.Errorf(status.TransportDown, "dht: no transport for %s", a)
		}
		c, err := t.Dial(ctx, a, p)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

func newDialback(dial func(context.Context, peer.ID, ma.Multiaddr) error, store *providerStore, now func() time.Time, m *metrics, registry *limits.Registry) (*dialback, error) {
	known, err := lru.New[providerAt, verdict](dialBackKnown)
	if err != nil {
		return nil, err
	}
	return &dialback{
		dial: dial, store: store, now: now, m: m, known: known, wait: map[providerAt]struct{}{},
		rate: registry.NewRate(limits.Spec{
			Name: "dht.dialback_rate", Path: "provider exchange → dials of providers", Policy: "wait",
		}, dialBackRate, 2*dialBackRate),
		queue: limits.NewLanes[string, call](registry, limits.Spec{
			Name: "dht.dialback", Path: "provider exchange → dials of providers", Policy: "the newest of the IP group with most waiting is not dialled",
		}, dialBackQueue, dialBackWorkers),
	}, nil
}

// sourceOf is where a record that came over c is from. A connection that this
// node dialled shows that the provider can be reached.
func (d *dialback) sourceOf(c network.Conn) source {
	at := providerAt{c.RemotePeer(), ipgroup.Key(c.RemoteMultiaddr(), c.RemotePeer())}
	stat := c.Stat()
	v, ok := d.last(at)
	return source{
		group:   at.group,
		reached: stat.Direction == network.DirOutbound && !stat.Limited || ok && v.reached,
	}
}

// last is what came of the last dial, if it still counts.
func (d *dialback) last(at providerAt) (verdict, bool) {
	v, ok := d.known.Get(at)
	return v, ok && d.now().Before(v.until)
}

// later has the provider of rec, which came from that address, dialled in the
// background, unless its last dial still counts. Then its records count as
// those of a provider that was reached, and rec is tried again if there was no
// room for it. It does not wait.
func (d *dialback) later(rec sealed, from ma.Multiaddr) {
	at := providerAt{rec.Provider, rec.group}
	addrs := sameHost(rec.addrs.Addrs, from)
	if d.dial == nil || rec.reached || len(addrs) == 0 {
		return
	}
	d.mu.Lock()
	_, waits := d.wait[at]
	if _, known := d.last(at); waits || known {
		d.mu.Unlock()
		return
	}
	d.wait[at] = struct{}{}
	d.mu.Unlock()
	shed, err := d.queue.TryPut(at.group, call{rec, addrs})
	if shed != nil {
		d.done(providerAt{shed.Item.rec.Provider, shed.Item.rec.group}, "dropped")
	}
	if err != nil {
		d.done(at, "dropped")
	}
}

// sameHost is the addresses of a record that are on the host which from is an
// address of, at most dialBackAddrs; none where from is a relay's.
func sameHost(addrs []ma.Multiaddr, from ma.Multiaddr) (same []ma.Multiaddr) {
	host, ok := direct(from)
	for _, a := range addrs {
		if ip, direct := direct(a); ok && direct && ip == host && len(same) < dialBackAddrs {
			same = append(same, a)
		}
	}
	return same
}

// direct is the IP address of a multiaddr that leads there without a relay.
func direct(a ma.Multiaddr) (netip.Addr, bool) {
	if slices.ContainsFunc(a, func(c ma.Component) bool { return c.Code() == ma.P_CIRCUIT }) {
		return netip.Addr{}, false
	}
	return ipgroup.IP(a)
}

// run dials until ctx ends, and waits for the dials under way.
func (d *dialback) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range dialBackWorkers {
		workers.Go(func() {
			for {
				c, err := d.queue.Get(ctx)
				if err != nil {
					return
				}
				d.call(ctx, c)
				d.queue.Done(c.rec.group)
			}
		})
	}
	workers.Wait()
}

// call dials one provider.
func (d *dialback) call(ctx context.Context, c call) {
	at := providerAt{c.rec.Provider, c.rec.group}
	v, result := verdict{until: d.now().Add(unreachedFor)}, "unreached"
	for _, a := range c.addrs {
		if err := d.rate.Wait(ctx, 1, time.Minute); err != nil {
			d.done(at, "dropped")
			return
		}
		dial, cancel := context.WithTimeout(ctx, dialBackTimeout)
		err := d.dial(dial, at.id, a)
		cancel()
		if err == nil {
			v, result = verdict{true, d.now().Add(reachedFor)}, "reached"
			break
		}
	}
	d.known.Add(at, v)
	d.done(at, result)
	if v.reached {
		c.rec.reached = true
		d.store.reached(at.id, at.group)
		_ = d.store.put(c.rec, d.now()) // it is there already, or a newer one, or finds room now
	}
}

// done ends the wait of a provider.
func (d *dialback) done(at providerAt, result string) {
	d.m.dialbacks.WithLabelValues(result).Inc()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.wait, at)
}
