package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/content"
	"allium/protocols/b3"
	"allium/protocols/ticket"
)

// listeningHost is a host that says where it listens.
type listeningHost struct {
	host.Host
	addrs []string
}

// Network returns a network that cannot list its interfaces, so that Addrs counts.
func (h listeningHost) Network() network.Network { return noInterfaces{} }

type noInterfaces struct{ network.Network }

func (noInterfaces) InterfaceListenAddresses() ([]ma.Multiaddr, error) {
	return nil, errors.New("none")
}

func (h listeningHost) ID() peer.ID {
	id, _ := peer.Decode("12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN") // it is valid
	return id
}

func (h listeningHost) Addrs() (list []ma.Multiaddr) {
	for _, a := range h.addrs {
		list = append(list, ma.StringCast(a))
	}
	return list
}

// TestPageTickets: every visitor sees the ticket of a page, so it names public addresses alone.
func TestPageTickets(t *testing.T) {
	const (
		public, private, loopback = "/ip4/8.8.4.4/tcp/1", "/ip4/192.168.1.5/tcp/1", "/ip4/127.0.0.1/tcp/1"
		relay                     = "/p2p/12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo/p2p-circuit"
	)
	of := content.TicketFor{Root: b3.Sum([]byte("x")), Directory: true, Size: 21, Name: "photos"}
	for _, c := range []struct {
		addrs, want []string
		relay       string
	}{
		{addrs: []string{loopback}},
		{addrs: []string{loopback, private}},
		{addrs: []string{private + relay}},
		{addrs: []string{loopback, private, public}, want: []string{public}},
		{addrs: []string{private, "/ip4/8.8.4.4/tcp/2" + relay}, relay: "/ip4/8.8.4.4/tcp/2" + relay},
	} {
		text := PageTickets(listeningHost{addrs: c.addrs}, ticket.Network{1})(of)
		if text == "" {
			if len(c.want) > 0 || c.relay != "" {
				t.Errorf("%v: no ticket", c.addrs)
			}
			continue
		}
		got, err := ticket.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var addrs []string
		for _, a := range got.Addrs {
			addrs = append(addrs, a.String())
		}
		if strings.Join(addrs, " ") != strings.Join(c.want, " ") || got.Root != of.Root || !got.Directory ||
			got.Size != of.Size || got.Name != of.Name || !got.NotAfter.IsZero() ||
			got.Network != (ticket.Network{1}) ||
			(got.Relay == nil) != (c.relay == "") {
			t.Errorf("%v: %+v", c.addrs, got)
		}
	}
	of.Size = 1 << 60
	if text := PageTickets(listeningHost{addrs: []string{public}}, ticket.Network{})(of); text != "" {
		t.Errorf("a ticket says a size that none can: %s", text)
	}
}
