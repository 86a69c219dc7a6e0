package dht

import (
	"context"
	"time"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"google.golang.org/protobuf/proto"

	"allium/protocols/delimited"
)

// kadSender sends kad-dht's messages. The library's own sender waits 10 s for a response,
// retries once and holds a lock per peer, so one silent peer costs 20 s. kadSender makes
// calls like every other.
type kadSender struct {
	rpc     *rpcClient
	latency peerstore.Metrics
	m       *metrics
}

// SendRequest implements pb.MessageSender.
func (k *kadSender) SendRequest(ctx context.Context, p peer.ID, msg *pb.Message) (*pb.Message, error) {
	q, err := proto.Marshal(msg)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	raw, rtt, err := k.rpc.call(ctx, p, KadID, q, maxKadMessage)
	k.m.rpc("kad", start, err)
	if err != nil {
		return nil, err
	}
	answer := new(pb.Message)
	if err := proto.Unmarshal(raw, answer); err != nil {
		return nil, err
	}
	k.latency.RecordLatency(p, rtt)
	return answer, nil
}

// SendMessage implements pb.MessageSender.
func (k *kadSender) SendMessage(ctx context.Context, p peer.ID, msg *pb.Message) error {
	q, err := proto.Marshal(msg)
	if err != nil {
		return err
	}
	return k.rpc.stream(ctx, p, KadID, func(s network.Stream) error { return delimited.Write(s, q) })
}

// OnDisconnect implements pb.MessageSenderWithDisconnect. It does nothing, because no
// stream outlives its call.
func (k *kadSender) OnDisconnect(context.Context, peer.ID) {}
