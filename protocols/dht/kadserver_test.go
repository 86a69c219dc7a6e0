package dht

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/ipfs/go-cid"
	"github.com/libp2p/go-libp2p"
	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"google.golang.org/protobuf/proto"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/delimited"
)

// TestStockClientFindsProviders: kad-dht's own client, which knows nothing of the
// provider exchange, finds who provides an object, and of an object that is
// denied or that nobody has it finds nobody.
func TestStockClientFindsProviders(t *testing.T) {
	nodes := startNetwork(t, 4)
	x, denied := root("an object"), root("denied")
	if _, err := nodes[1].Provide(t.Context(), x, denied); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		n.mu.Lock()
		n.run.server.denied = func(r b3.Root) bool { return r == denied }
		n.mu.Unlock()
	}
	h, err := libp2p.New(libp2p.NoListenAddrs, libp2p.DisableMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	stock, err := kaddht.New(h, kaddht.ProtocolPrefix(Prefix), kaddht.Mode(kaddht.ModeClient), kaddht.DisableAutoRefresh(),
		kaddht.AddressFilter(func(as []ma.Multiaddr) []ma.Multiaddr { return as }))
	if err != nil {
		t.Fatal(err)
	}
	defer stock.Close()
	seed := peer.AddrInfo{ID: nodes[0].host.ID(), Addrs: nodes[0].host.Addrs()}
	if err := h.Connect(t.Context(), seed); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the client's table", func() bool { return stock.RoutingTable().Size() > 0 })
	find := func(r b3.Root) []peer.AddrInfo {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		found, err := stock.FindProviders(ctx, cid.NewCidV1(cid.Raw, r.Multihash()))
		if err != nil && len(found) == 0 && !errors.Is(err, context.Canceled) {
			t.Log(err)
		}
		return found
	}
	if got := find(x); len(got) != 1 || got[0].ID != nodes[1].id || len(got[0].Addrs) == 0 {
		t.Errorf("found %v, want %s", got, nodes[1].id)
	}
	for _, r := range []b3.Root{denied, root("nobody's")} {
		if got := find(r); len(got) != 0 {
			t.Errorf("found %v", got)
		}
	}

	// One stream serves all kinds of messages, in their order.
	s, err := h.NewStream(t.Context(), seed.ID, KadID)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	in := bufio.NewReader(s)
	key := x.Multihash()
	for i, kind := range []pb.Message_MessageType{pb.Message_FIND_NODE, pb.Message_GET_PROVIDERS, pb.Message_GET_PROVIDERS, pb.Message_FIND_NODE, pb.Message_PING} {
		raw, err := proto.Marshal(pb.NewMessage(kind, key, 0))
		if err != nil {
			t.Fatal(err)
		}
		if err := delimited.Write(s, raw); err != nil {
			t.Fatal(err)
		}
		if raw, err = delimited.Read(in, maxKadMessage); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		var a pb.Message
		if err := proto.Unmarshal(raw, &a); err != nil || a.GetType() != kind || (len(a.GetProviderPeers()) == 1) != (kind == pb.Message_GET_PROVIDERS) {
			t.Errorf("message %d: %v, %v", i, &a, err)
		}
		if kind != pb.Message_PING && len(a.GetCloserPeers()) == 0 {
			t.Errorf("message %d names no closer peers", i)
		}
	}
}

// oneMessage is a stream that, as the guard's, returns no bytes of two messages
// from one Read.
type oneMessage struct {
	network.Stream
	messages [][]byte
	out      bytes.Buffer
}

func (s *oneMessage) Conn() network.Conn { return asking{} }

func (s *oneMessage) Read(p []byte) (int, error) {
	if len(s.messages) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.messages[0])
	if s.messages[0] = s.messages[0][n:]; len(s.messages[0]) == 0 {
		s.messages = s.messages[1:]
	}
	return n, nil
}

func (s *oneMessage) Write(p []byte) (int, error) { return s.out.Write(p) }

type asking struct{ network.Conn }

func (asking) RemotePeer() peer.ID { return "asking" }

// FuzzKadStream: the handler reads every message but a GET_PROVIDERS as it came,
// and each GET_PROVIDERS has one answer.
func FuzzKadStream(f *testing.F) {
	for _, kind := range []pb.Message_MessageType{pb.Message_FIND_NODE, pb.Message_GET_PROVIDERS, pb.Message_ADD_PROVIDER} {
		raw, err := proto.Marshal(pb.NewMessage(kind, root("x").Multihash(), 0))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw, []byte("noise"))
	}
	f.Add([]byte{}, bytes.Repeat([]byte{0x0a}, 300))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		under := &oneMessage{}
		var want []byte
		asked := 0
		for _, m := range [][]byte{a, b, a} {
			if len(m) > maxMessage {
				return
			}
			var framed bytes.Buffer
			if err := delimited.Write(&framed, m); err != nil {
				t.Fatal(err)
			}
			under.messages = append(under.messages, slices.Clone(framed.Bytes()))
			var q pb.Message
			if proto.Unmarshal(m, &q) == nil && q.GetType() == pb.Message_GET_PROVIDERS && len(q.GetKey()) > 0 && len(q.GetKey()) <= maxKadKey {
				asked++
			} else {
				want = append(want, framed.Bytes()...)
			}
		}
		answers := 0
		s := &kadStream{Stream: under, in: bufio.NewReaderSize(under, kadBuffer), answer: func(from peer.ID, q *pb.Message) *pb.Message {
			answers++
			return pb.NewMessage(q.GetType(), q.GetKey(), 0)
		}}
		if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, want) || answers != asked || (under.out.Len() > 0) != (asked > 0) {
			t.Fatalf("read %x, %v, want %x; %d answers to %d", got, err, want, answers, asked)
		}
	})
}
