package p2p

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/util"
	ma "github.com/multiformats/go-multiaddr"

	"allium/internal/testkit/simnet"
)

// TestFortyBehindOneRelay: 40 clients connect at the same moment to a node through its relay, and another node dials
// the 40 through that relay. A peer that only says that it relays for the node gets nobody in.
func TestFortyBehindOneRelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t, 1)
		defer s.close()
		relay := s.seeds[0]
		target, dialer := s.join(simnet.Symmetric, "30.0.0.1"), s.join(simnet.Symmetric, "31.0.0.1")
		var clients []*simNode
		for i := range 40 {
			clients = append(clients, s.join(simnet.Symmetric, fmt.Sprintf("40.%d.0.1", i)))
		}
		time.Sleep(5 * time.Second)
		errs := make(chan error, 2*len(clients))
		dial := func(from, to *simNode) {
			info := peer.AddrInfo{ID: to.ID(), Addrs: to.Addrs()}
			errs <- from.Connect(network.WithAllowLimitedConn(t.Context(), "test"), info)
		}
		for _, c := range clients {
			if got := relaysOf(c); !slices.Equal(got, []peer.ID{relay.ID()}) {
				t.Fatalf("a client has the relays %v", got)
			}
			go dial(c, target)
			go dial(dialer, c)
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		for name, n := range map[string]*simNode{"came in": target, "were dialled": dialer} {
			in := 0
			for _, c := range clients {
				if n.Network().Connectedness(c.ID()) != network.NotConnected {
					in++
				}
			}
			if in != len(clients) {
				t.Errorf("%d of %d %s", in, len(clients), name)
			}
		}

		liar := s.add(Desktop, simnet.None, "50.0.0.1", nil)
		s.connect(liar, relay)
		s.connect(target, liar)
		for i := range 20 {
			st, err := liar.NewStream(t.Context(), target.ID(), proto.ProtoIDv2Stop)
			if err != nil {
				t.Fatal(err)
			}
			_ = util.NewDelimitedWriter(st).WriteMsg(&pb.StopMessage{Type: pb.StopMessage_CONNECT.Enum(),
				Peer: util.PeerInfoToPeerV2(peer.AddrInfo{ID: clients[i].ID()})})
			_ = st.SetReadDeadline(time.Now().Add(2 * time.Second)) // the handshake would wait longer
			begun := time.Now()
			if _, err := io.Copy(io.Discard, st); err == nil || time.Since(begun) > time.Second {
				t.Fatalf("peer %d of a relay without a reservation: %v after %s", i, err, time.Since(begun))
			}
		}
	})
}

// TestFortyHostsOfOneLAN: 40 hosts of one IPv6 LAN, whose addresses share a /64, connect to another one of it.
func TestFortyHostsOfOneLAN(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSimulated(t, 0)
		defer s.close()
		target := s.add(Desktop, simnet.None, "fd00:1:2:3::1", nil)
		to := peer.AddrInfo{ID: target.ID(),
			Addrs: []ma.Multiaddr{ma.StringCast("/ip6/fd00:1:2:3::1/udp/4901/quic-v1")}}
		in := 0
		for i := range 40 {
			if err := s.add(Desktop, simnet.None, fmt.Sprintf("fd00:1:2:3::%x", i+2),
				nil).Connect(t.Context(), to); err == nil {
				in++
			}
		}
		if in != 40 || len(target.Network().Peers()) != 40 {
			t.Errorf("%d of 40 hosts connected, and the other side has %d", in, len(target.Network().Peers()))
		}
	})
}
