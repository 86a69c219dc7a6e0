package access

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// set is the entries of one key. It is immutable once all files were read.
type set struct {
	ids  map[peer.ID]struct{}
	nets map[netip.Prefix]struct{}
	bits [2][]int // the distinct prefix lengths of IPv4 and of IPv6
}

func newSet() *set {
	return &set{ids: map[peer.ID]struct{}{}, nets: map[netip.Prefix]struct{}{}}
}

func (s *set) add(e entry) {
	if e.id != "" {
		s.ids[e.id] = struct{}{}
		return
	}
	s.nets[e.net] = struct{}{}
	if bits := &s.bits[family(e.net.Addr())]; !slices.Contains(*bits, e.net.Bits()) {
		*bits = append(*bits, e.net.Bits())
	}
}

func (s *set) count() int { return len(s.ids) + len(s.nets) }

func (s *set) equal(o *set) bool { return maps.Equal(s.ids, o.ids) && maps.Equal(s.nets, o.nets) }

func (s *set) hasID(id peer.ID) bool {
	_, ok := s.ids[id]
	return ok
}

// hasAddr reports whether an entry is at or around an address. It looks once for each prefix length.
func (s *set) hasAddr(at netip.Addr) bool {
	if !at.IsValid() {
		return false
	}
	for _, bits := range s.bits[family(at)] {
		if p, err := at.Prefix(bits); err == nil {
			if _, ok := s.nets[p]; ok {
				return true
			}
		}
	}
	return false
}

func family(at netip.Addr) int {
	if at.Is4() {
		return 0
	}
	return 1
}

// place is the network location of a peer.
type place struct {
	ip    netip.Addr // of the relay if it is relayed; not valid if the address has none
	relay peer.ID    // empty if the connection is direct
	via   bool       // the connection is relayed
}

// placeOf returns the place that an address names. An address without an IP, such as one of an
// in-memory transport, has none.
func placeOf(a ma.Multiaddr) (p place) {
	if a == nil {
		return p
	}
	if ip, err := manet.ToIP(a); err == nil {
		p.ip, _ = netip.AddrFromSlice(ip)
		p.ip = p.ip.Unmap()
	}
	relay, circuit := ma.SplitFunc(a, func(c ma.Component) bool { return c.Protocol().Code == ma.P_CIRCUIT })
	if len(circuit) > 0 {
		p.via = true
		if id, err := relay.ValueForProtocol(ma.P_P2P); err == nil {
			p.relay, _ = peer.Decode(id)
		}
	}
	return p
}

// rules holds the access lists in force.
type rules struct {
	allow *set // nil: listen.allow names no file
	deny  *set
}

func (r *rules) equal(o *rules) bool {
	return r.deny.equal(o.deny) && (r.allow == nil || r.allow.equal(o.allow))
}

// count returns the number of entries.
func (r *rules) count() int {
	n := r.deny.count()
	if r.allow != nil {
		n += r.allow.count()
	}
	return n
}

// denied reports whether the peer is denied wherever it is.
func (r *rules) denied(id peer.ID) bool {
	return r.deny.hasID(id) || r.allow != nil && len(r.allow.nets) == 0 && !r.allow.hasID(id)
}

// deniedFrom reports whether every peer at a place is denied.
func (r *rules) deniedFrom(at place) bool {
	if r.deny.hasAddr(at.ip) || at.relay != "" && r.deny.hasID(at.relay) {
		return true
	}
	return r.allow != nil && len(r.allow.ids) == 0 && (at.via || !r.allow.hasAddr(at.ip))
}

// deniedAt reports whether the peer is denied at a place.
func (r *rules) deniedAt(id peer.ID, at place) bool {
	if r.deny.hasID(id) || r.deny.hasAddr(at.ip) || at.relay != "" && r.deny.hasID(at.relay) {
		return true
	}
	return r.allow != nil && !r.allow.hasID(id) && (at.via || !r.allow.hasAddr(at.ip))
}
