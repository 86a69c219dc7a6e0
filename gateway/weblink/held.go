package weblink

import (
	"net/netip"
	"net/url"
	"strconv"

	"allium/gateway/api"
	"allium/protocols/status"
)

// Held is a link on the node's public listener alone, until Close.
type Held struct {
	l    *link
	base string
}

// Hold opens a link on the public listener alone. It returns unsupported if no other machine can reach that listener.
func (s *Set) Hold(o Options) (*Held, error) {
	addrs, preferred := machineAddrs()
	at := atGateway(s.deps.Gateway(), s.deps.Listen, addrs, preferred)
	if len(at) == 0 {
		return nil, status.Errorf(status.Unsupported, "its gateway has no address that others can open")
	}
	l, err := s.open(o)
	if err != nil {
		return nil, err
	}
	return &Held{l, at[0].URL}, nil
}

// atGateway returns the places of links at a public listener with a base URL, without their paths, that others than
// this machine may reach, the farthest first. A plain listener at every address of this machine has one of addrs.
func atGateway(base, listen string, addrs []netip.Addr, preferred netip.Addr) (all []Place) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" || !everywhere(listen) || ReachOf(base) != api.ReachMachine {
		return onGateway(base, "")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return nil
	}
	for _, p := range places(netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(port)), addrs, preferred, "") {
		if p.Reach != api.ReachMachine {
			all = append(all, p)
		}
	}
	return all
}

// URL returns the link.
func (h *Held) URL() string { return h.base + h.l.path() }

// Take returns what happened since its last call. ended means that nothing more happens.
func (h *Held) Take() (all []Event, ended bool) { return h.l.take(h.l.set.deps.Now()) }

// Close ends the link. It is called once.
func (h *Held) Close() { h.l.set.end(h.l) }
