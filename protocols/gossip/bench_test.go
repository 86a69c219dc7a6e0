package gossip

import (
	"context"
	"testing"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
)

// idHost is a host that only has an ID.
type idHost struct {
	host.Host
	id peer.ID
}

func (h idHost) ID() peer.ID { return h.id }

// BenchmarkMessage measures what this package adds to a message of the size of an
// announcement: the inspection, the id, the validator's call, the queue and the
// handler's call. Signatures are not
// included, because pubsub checks them.
func BenchmarkMessage(b *testing.B) {
	topic := testTopic
	cfg := DefaultConfig()
	cfg.BurstFrames, cfg.TotalRate, cfg.PeerRate = 1<<16, 1<<20, 1<<16
	s := bench(b)
	s.calls.Open()
	m := &pb.Message{Topic: &topic, From: []byte("author"), Data: make([]byte, 512)}
	validate := s.validator(s.topics[testTopic])
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		rpc := &pubsub.RPC{RPC: pb.RPC{Publish: []*pb.Message{m}}}
		s.inspect(ctx, "relay", rpc)
		messageID(m)
		if validate(ctx, "relay", &pubsub.Message{Message: m}) != pubsub.ValidationAccept {
			b.Fatal("not accepted")
		}
		if err := s.ingress.TryPut(Message{Topic: topic, From: "author", Data: m.Data}); err != nil {
			b.Fatal(err)
		}
		got, _ := s.ingress.TryGet()
		s.handle(ctx, got)
	}
}

// BenchmarkFlood measures a message beyond the budget of its sender.
func BenchmarkFlood(b *testing.B) {
	topic := testTopic
	s := bench(b)
	m := &pb.Message{Topic: &topic, From: []byte("author"), Data: make([]byte, 512)}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		s.inspect(ctx, "relay", &pubsub.RPC{RPC: pb.RPC{Publish: []*pb.Message{m}}})
	}
}
