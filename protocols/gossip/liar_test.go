package gossip

import (
	"encoding/binary"
	"testing"

	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"
)

// liar is a peer that writes gossip streams itself, so it can break every rule.
type liar struct {
	t      *testing.T
	host   host.Host
	key    crypto.PrivKey
	stream network.Stream
	seq    uint64
}

// newLiar opens a gossip stream from h to the other host. With listen it takes
// the streams that others open, as a peer that gossips does.
func newLiar(t *testing.T, h, to host.Host, listen bool) *liar {
	t.Helper()
	if listen {
		h.SetStreamHandler(ProtocolID, func(s network.Stream) {
			buf := make([]byte, 4096)
			for {
				if _, err := s.Read(buf); err != nil {
					_ = s.Reset()
					return
				}
			}
		})
	}
	if err := h.Connect(t.Context(), peer.AddrInfo{ID: to.ID(), Addrs: to.Addrs()}); err != nil {
		t.Fatal(err)
	}
	s, err := h.NewStream(t.Context(), to.ID(), ProtocolID)
	if err != nil {
		t.Fatal(err)
	}
	return &liar{t: t, host: h, key: h.Peerstore().PrivKey(h.ID()), stream: s}
}

// send writes one RPC to the stream and returns the stream's error.
func (l *liar) send(rpc *pb.RPC) error {
	l.t.Helper()
	data, err := proto.Marshal(rpc)
	if err != nil {
		l.t.Fatal(err)
	}
	_, err = l.stream.Write(append(binary.AppendUvarint(nil, uint64(len(data))), data...))
	return err
}

// publish sends messages in one RPC. The test fails if the stream refuses it.
func (l *liar) publish(ms ...*pb.Message) {
	l.t.Helper()
	if err := l.send(&pb.RPC{Publish: ms}); err != nil {
		l.t.Fatal(err)
	}
}

// message returns a message of the liar with a valid signature.
func (l *liar) message(topic string, data []byte) *pb.Message {
	l.seq++
	m := &pb.Message{
		Topic: &topic,
		Data:  data,
		From:  []byte(l.host.ID()),
		Seqno: binary.BigEndian.AppendUint64(nil, l.seq),
	}
	l.sign(m)
	return m
}

func (l *liar) sign(m *pb.Message) {
	l.t.Helper()
	m.Signature = nil
	data, err := proto.Marshal(m)
	if err != nil {
		l.t.Fatal(err)
	}
	if m.Signature, err = l.key.Sign(append([]byte("libp2p-pubsub:"), data...)); err != nil {
		l.t.Fatal(err)
	}
}
