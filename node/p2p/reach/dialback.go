package reach

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/ipgroup"
)

// dialbacks notes which IP addresses dialled this node on request (AutoNAT v2). Such a dial comes from an
// unknown peer that does not identify itself, at the address of a connected one.
type dialbacks struct {
	mu    sync.Mutex                        // lock: leaf
	fresh *simplelru.LRU[peer.ID, dialback] // inbound connections, until they are identified
	known *simplelru.LRU[dialback, time.Time]
}

// dialback is a dial: where it came from, and which kind of address it was for.
type dialback struct {
	from netip.Addr
	kind string // such as "ip4 tcp"
}

const (
	maxFresh   = 64
	maxKnown   = 64
	knownSince = time.Hour // how long a dial counts, as long as AutoNAT's confidence
)

func newDialbacks() (*dialbacks, error) {
	fresh, err := simplelru.NewLRU[peer.ID, dialback](maxFresh, nil)
	if err != nil {
		return nil, err
	}
	known, err := simplelru.NewLRU[dialback, time.Time](maxKnown, nil)
	return &dialbacks{fresh: fresh, known: known}, err
}

// kindOf returns the IP version and the transport of an address.
func kindOf(a ma.Multiaddr) string {
	if len(a) < 2 {
		return ""
	}
	return a[0].Protocol().Name + " " + a[1].Protocol().Name
}

// connected notes an inbound connection.
func (d *dialbacks) connected(c network.Conn) {
	from, ok := ipgroup.IP(c.RemoteMultiaddr())
	if !ok || c.Stat().Direction != network.DirInbound || IsRelayed(c.RemoteMultiaddr()) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fresh.Add(c.RemotePeer(), dialback{from, kindOf(c.RemoteMultiaddr())})
}

// unidentified notes that a peer does not identify itself.
func (d *dialbacks) unidentified(p peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.fresh.Peek(p); ok {
		d.fresh.Remove(p)
		d.known.Add(at, time.Now())
	}
}

// from returns the IP addresses that dialled an address of that kind lately.
func (d *dialbacks) from(kind string, now time.Time) (ips []netip.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.known.Keys() {
		if when, ok := d.known.Peek(at); ok && at.kind == kind && now.Sub(when) < knownSince {
			ips = append(ips, at.from)
		}
	}
	return ips
}

// Confirmers returns the connected peers that dialled an address of this node on request within the last hour:
// those at whose IP address such a dial came from, for the IP version and transport of a.
func (s *Service) Confirmers(a ma.Multiaddr) (ids []peer.ID) {
	ips := s.dialback.from(kindOf(a), time.Now())
	for _, c := range s.host.Network().Conns() {
		ip, ok := ipgroup.IP(c.RemoteMultiaddr())
		if ok && !IsRelayed(c.RemoteMultiaddr()) && slices.Contains(ips, ip) && !slices.Contains(ids, c.RemotePeer()) {
			ids = append(ids, c.RemotePeer())
		}
	}
	slices.Sort(ids)
	return ids
}
