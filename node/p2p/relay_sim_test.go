package p2p

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/util"

	"allium/internal/testkit/simnet"
	"allium/node/p2p/reach"
	"allium/protocols/status"
)

// relaysOf returns the peers through which a node is announced.
func relaysOf(n *simNode) (ids []peer.ID) {
	for _, a := range n.Addrs() {
		if before, _, relayed := strings.Cut(a.String(), "/p2p-circuit"); relayed {
			id, err := peer.Decode(before[strings.LastIndex(before, "/")+1:])
			if err == nil && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// TestRelayLost: when a relay goes away, another one takes its place.
func TestRelayLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := joined(t)
		defer s.close()
		n := s.join(simnet.Symmetric, "30.0.0.1")
		time.Sleep(5 * time.Second)
		before := relaysOf(n)
		if len(before) != reach.Relays {
			t.Fatalf("relays %v", before)
		}
		i := slices.IndexFunc(s.seeds, func(r *simNode) bool { return r.ID() == before[0] })
		_ = n.Network().ClosePeer(s.seeds[i].ID())
		s.seeds[i].RemoveStreamHandler(proto.ProtoIDv2Hop) // it does not come back
		time.Sleep(5 * time.Second)
		if after := relaysOf(n); len(after) != reach.Relays || slices.Contains(after, before[0]) {
			t.Errorf("relays %v, before %v", after, before)
		}
	})
}

// TestReservationsRenewed: reservations last an hour, and three hours later the node is still announced.
func TestReservationsRenewed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := joined(t)
		defer s.close()
		n := s.join(simnet.Symmetric, "30.0.0.1")
		time.Sleep(130 * time.Minute)
		if got := relaysOf(n); len(got) != reach.Relays {
			t.Errorf("relays %v", got)
		}
		a := s.join(simnet.None, "31.0.0.1")
		time.Sleep(5 * time.Second)
		if got := s.path(a, n); got != "punched" {
			t.Errorf("the path is %s", got)
		}
	})
}

// TestRelaysThatLie: relays that are silent, refuse, say nonsense, or offer too short a time are passed over
// within 5 s each, and honest ones found.
func TestRelaysThatLie(t *testing.T) {
	t.Parallel()
	answer := func(m *pb.HopMessage) network.StreamHandler {
		return func(st network.Stream) {
			_ = util.NewDelimitedWriter(st).WriteMsg(m)
			_ = st.Close()
		}
	}
	soon := uint64(time.Now().Add(24 * 365 * time.Hour).Unix())
	for title, lie := range map[string]network.StreamHandler{
		"silent":   func(network.Stream) {},
		"resets":   func(st network.Stream) { _ = st.Reset() },
		"nonsense": func(st network.Stream) { _, _ = st.Write(make([]byte, 10<<10)); _ = st.Close() },
		"refuses": answer(&pb.HopMessage{Type: pb.HopMessage_STATUS.Enum(),
			Status: pb.Status_RESERVATION_REFUSED.Enum()}),
		"no reservation": answer(&pb.HopMessage{Type: pb.HopMessage_STATUS.Enum(), Status: pb.Status_OK.Enum()}),
		"no voucher": answer(&pb.HopMessage{Type: pb.HopMessage_STATUS.Enum(), Status: pb.Status_OK.Enum(),
			Reservation: &pb.Reservation{Expire: &soon, Voucher: []byte("x")}}),
		"short": func(st network.Stream) {
			end := uint64(time.Now().Add(10 * time.Second).Unix())
			answer(&pb.HopMessage{Type: pb.HopMessage_STATUS.Enum(), Status: pb.Status_OK.Enum(),
				Reservation: &pb.Reservation{Expire: &end}})(st)
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := joined(t)
				defer s.close()
				time.Sleep(10 * time.Second)
				for _, liar := range s.seeds[:2] {
					liar.SetStreamHandler(proto.ProtoIDv2Hop, lie)
				}
				n := s.join(simnet.Symmetric, "30.0.0.1")
				time.Sleep(12 * time.Second)
				got := relaysOf(n)
				for _, want := range s.seeds[2:] {
					if !slices.Contains(got, want.ID()) {
						t.Errorf("relays %v, not %s", got, want.ID())
					}
				}
				if len(got) != reach.Relays {
					t.Errorf("relays %v", got)
				}
			})
		})
	}
}

// TestRelayServiceBounded: a relay serves peers that speak one of our protocols, and a circuit ends at its
// limit of bytes.
func TestRelayServiceBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := joined(t)
		defer s.close()
		time.Sleep(10 * time.Second)
		stranger := s.add(Desktop, simnet.Symmetric, "32.0.0.1", nil)
		stranger.RemoveStreamHandler("/oap/1/object")
		relay := s.seeds[0]
		s.connect(stranger, relay)
		time.Sleep(time.Second)
		_, err := client.Reserve(t.Context(), stranger, peer.AddrInfo{ID: relay.ID()})
		if err == nil || !strings.Contains(err.Error(), "PERMISSION_DENIED") {
			t.Errorf("a stranger: %v", err)
		}
		a, b := s.join(simnet.Symmetric, "30.0.0.1"), s.join(simnet.Symmetric, "31.0.0.1")
		time.Sleep(10 * time.Second)
		b.SetStreamHandler("/oap/1/bulk", func(st network.Stream) {
			piece := make([]byte, 64<<10)
			for {
				if _, err := st.Write(piece); err != nil {
					return
				}
			}
		})
		if got := s.path(a, b); got != "relayed" {
			t.Fatalf("the path is %s", got)
		}
		bulk := a.reach.Bulk()
		st, err := bulk.NewStream(t.Context(), b.ID(), "/oap/1/bulk")
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, st)
		if err == nil || n < 3<<20 || n > 4<<20 {
			t.Errorf("the circuit carried %d bytes: %v", n, err)
		}
		_ = st.Reset()

		// The same peer through another circuit, as a fetch would that tries again: a hole is tried again, for less
		// than the 5 s after which a fetch gives up, and the next one is refused at once.
		time.Sleep(time.Minute)
		for _, most := range []time.Duration{4 * time.Second, 500 * time.Millisecond} {
			begun := time.Now()
			again, err := bulk.NewStream(t.Context(), b.ID(), "/oap/1/bulk")
			if err == nil {
				_ = again.Reset()
			}
			if took := time.Since(begun); took > most {
				t.Errorf("it took %s, more than %s", took, most)
			}
			if status.Of(err) != status.TransportDown || !strings.Contains(err.Error(), "forward a port") {
				t.Errorf("a second circuit: %v", err)
			}
		}

		// A node that has just started gets something too before a fetch gives up.
		fresh := s.add(Desktop, simnet.Symmetric, "33.0.0.1", nil)
		fresh.Peerstore().AddAddrs(b.ID(), b.Addrs(), time.Hour)
		begun := time.Now()
		first, err := fresh.reach.Bulk().NewStream(t.Context(), b.ID(), "/oap/1/bulk")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took > 4500*time.Millisecond {
			t.Errorf("the first stream took %s", took)
		}
		_ = first.Reset()
	})
}
