package dht

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"

	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"google.golang.org/protobuf/proto"

	"allium/protocols/b3"
	"allium/protocols/delimited"
	"allium/protocols/status"
)

// kadHost is a host that answers kad-dht's GET_PROVIDERS itself, from the
// verified records that the provider exchange answers from, so that ordinary
// libp2p tools find providers. kad-dht's own provider store, which takes
// unsigned records, is off. All other messages are for kad-dht's handler.
type kadHost struct {
	host.Host
	answer func(from peer.ID, q *pb.Message) *pb.Message // to a GET_PROVIDERS
}

// SetStreamHandler implements host.Host.
func (h *kadHost) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	if id == KadID {
		handle := f
		f = func(s network.Stream) {
			handle(&kadStream{Stream: s, answer: h.answer, in: bufio.NewReaderSize(s, kadBuffer)})
		}
	}
	h.Host.SetStreamHandler(id, f)
}

const (
	// kadBuffer is the size of a stream's buffer in bytes; queries have about 40.
	kadBuffer = 128

	// maxKadKey is the length in bytes of the longest key that is looked up; longer
	// ones are left to kad-dht, which refuses them.
	maxKadKey = 80
)

// kadStream is a stream on which the handler sees no GET_PROVIDERS: each is
// answered within the Read that meets it. The stream below must not return bytes
// of two messages from one Read, as the guard's does not.
type kadStream struct {
	network.Stream
	answer func(from peer.ID, q *pb.Message) *pb.Message
	in     *bufio.Reader
	rest   []byte // of the message in hand, not read yet
}

// Read implements network.Stream.
func (s *kadStream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next reads a message, and answers it if it is a GET_PROVIDERS.
func (s *kadStream) next() error {
	body, err := delimited.Read(s.in, maxMessage)
	if err != nil {
		return err
	}
	q, ok := getProviders(body)
	if !ok {
		s.rest = append(binary.AppendUvarint(nil, uint64(len(body))), body...)
		return nil
	}
	answer, err := proto.Marshal(s.answer(s.Conn().RemotePeer(), q))
	if err != nil {
		return err
	}
	return delimited.Write(s.Stream, answer)
}

// getProviders returns the message in body if it is a GET_PROVIDERS with a key.
func getProviders(body []byte) (q *pb.Message, ok bool) {
	q = new(pb.Message)
	if err := proto.Unmarshal(body, q); err != nil {
		return nil, false
	}
	n := len(q.GetKey())
	return q, q.GetType() == pb.Message_GET_PROVIDERS && 0 < n && n <= maxKadKey
}

// kadProviders answers a GET_PROVIDERS with the providers of verified records and
// the closest peers known. A key that is no address of an object has no providers.
func (s *Service) kadProviders(from peer.ID, q *pb.Message) *pb.Message {
	answer := pb.NewMessage(pb.Message_GET_PROVIDERS, q.GetKey(), q.GetClusterLevel())
	answer.CloserPeers = pb.RawPeerInfosToPBPeers(s.nearest(q.GetKey(), from))
	s.m.served.WithLabelValues("kad_get_providers", status.OK.String()).Inc()
	s.mu.Lock()
	r := s.run
	s.mu.Unlock()
	root, err := b3.FromMultihash(q.GetKey())
	if r == nil || err != nil || !bytes.Equal(root.Multihash(), q.GetKey()) {
		return answer
	}
	ctx, cancel := context.WithTimeout(r.ctx, serveTimeout)
	defer cancel()
	var providers []peer.AddrInfo
	for _, rec := range r.server.held(ctx, root) {
		providers = append(providers, peer.AddrInfo{ID: rec.Provider, Addrs: rec.addrs.Addrs})
	}
	answer.ProviderPeers = pb.RawPeerInfosToPBPeers(providers)
	return answer
}
