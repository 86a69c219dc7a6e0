package lan

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"golang.org/x/net/dns/dnsmessage"
)

// ServiceName is the name under which nodes are found.
const ServiceName = "_allium._udp.local."

// The bounds of packets that are read and sent.
const (
	maxPacket  = 9000 // bytes, as RFC 6762 section 17 has it
	maxRecords = 64   // records of a packet that are looked at
	maxAddrs   = 8    // addresses of one peer
	ttl        = 120  // seconds for which an answer may be remembered
)

// The keys of the strings of a TXT record.
const (
	textAddr    = "a="   // a multiaddr, without the peer ID
	textNetwork = "net=" // fingerprint of the private network; absent: the public one
)

var serviceName = dnsmessage.MustNewName(ServiceName)

// sighting is the information of an answer about one peer.
type sighting struct {
	id      peer.ID
	addrs   []ma.Multiaddr
	network string
}

// query returns the packet that asks for the nodes of the network.
func query() ([]byte, error) {
	m := dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: serviceName, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET},
	}}
	return m.Pack()
}

// announcement returns the packet that says that this node is here. With gone it says that it is leaving.
func announcement(s sighting, gone bool) ([]byte, error) {
	instance, err := dnsmessage.NewName(s.id.String() + "." + ServiceName)
	if err != nil {
		return nil, err
	}
	life := uint32(ttl)
	if gone {
		life = 0
	}
	var text []string
	for _, a := range s.addrs[:min(len(s.addrs), maxAddrs)] {
		if t := textAddr + a.String(); len(t) <= 255 { // the most that a string of a TXT record has
			text = append(text, t)
		}
	}
	if s.network != "" {
		text = append(text, textNetwork+s.network)
	}
	m := dnsmessage.Message{
		Header: dnsmessage.Header{Response: true, Authoritative: true},
		Answers: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: serviceName, Class: dnsmessage.ClassINET, TTL: life},
			Body:   &dnsmessage.PTRResource{PTR: instance},
		}},
		Additionals: []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: instance, Class: dnsmessage.ClassINET, TTL: life},
			Body:   &dnsmessage.TXTResource{TXT: text},
		}},
	}
	return m.Pack()
}

// parse reads a packet. asks reports whether it is a query for nodes. From an answer, parse returns the first peer that
// is named with addresses, if there is one.
func parse(p []byte) (asks bool, found sighting, err error) {
	var d dnsmessage.Parser
	h, err := d.Start(p)
	if err != nil {
		return false, found, err
	}
	if !h.Response {
		asks, err = parseQuestions(&d)
		return asks, found, err
	}
	if err := d.SkipAllQuestions(); err != nil {
		return false, found, err
	}
	n := 0
	for _, section := range []func() (dnsmessage.ResourceHeader, error){d.AnswerHeader, d.AuthorityHeader,
		d.AdditionalHeader} {
		for {
			h, err := section()
			if errors.Is(err, dnsmessage.ErrSectionDone) {
				break
			}
			if n++; err != nil || n > maxRecords {
				return false, found, err
			}
			id, ours := instanceOf(h)
			if !ours || h.TTL == 0 {
				if _, err := d.UnknownResource(); err != nil { // of any section and type
					return false, found, err
				}
				continue
			}
			txt, err := d.TXTResource()
			if err != nil {
				return false, found, err
			}
			return false, readText(id, txt.TXT), nil
		}
	}
	return false, found, nil
}

func parseQuestions(d *dnsmessage.Parser) (asks bool, err error) {
	for range maxRecords {
		q, err := d.Question()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return asks, nil
		}
		if err != nil {
			return asks, err
		}
		asks = asks || strings.EqualFold(q.Name.String(), ServiceName) &&
			(q.Type == dnsmessage.TypePTR || q.Type == dnsmessage.TypeALL)
	}
	return asks, nil
}

// instanceOf returns the peer whose TXT record the header begins, and false for any other record.
func instanceOf(h dnsmessage.ResourceHeader) (peer.ID, bool) {
	if h.Type != dnsmessage.TypeTXT {
		return "", false
	}
	name := h.Name.String()
	label, service, ok := strings.Cut(name, ".")
	if !ok || !strings.EqualFold(service, ServiceName) {
		return "", false
	}
	id, err := peer.Decode(label)
	return id, err == nil
}

// readText reads the strings of a TXT record. It leaves out what it does not understand.
func readText(id peer.ID, text []string) sighting {
	s := sighting{id: id}
	for _, t := range text[:min(len(text), maxRecords)] {
		if n, ok := strings.CutPrefix(t, textNetwork); ok {
			s.network = n
		}
		raw, ok := strings.CutPrefix(t, textAddr)
		if !ok || len(s.addrs) == maxAddrs {
			continue
		}
		if a, err := ma.NewMultiaddr(raw); err == nil {
			s.addrs = append(s.addrs, a)
		}
	}
	return s
}

// within returns those of addrs that are direct and in one of the networks.
func within(addrs []ma.Multiaddr, nets []netip.Prefix) (in []ma.Multiaddr) {
	for _, a := range addrs {
		if _, err := a.ValueForProtocol(ma.P_CIRCUIT); err == nil {
			continue
		}
		ip, err := manet.ToIP(a)
		if err != nil {
			continue
		}
		if at, ok := netip.AddrFromSlice(ip); ok && contains(nets, at.Unmap()) && len(in) < maxAddrs {
			in = append(in, a)
		}
	}
	return in
}

func contains(nets []netip.Prefix, at netip.Addr) bool {
	for _, n := range nets {
		if n.Contains(at) {
			return true
		}
	}
	return false
}
