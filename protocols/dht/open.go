package dht

import (
	"context"
	"io"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"
)

// lazyOpener opens streams on the network, not through the host. The host waits until a
// new connection is identified, which takes another round trip. lazyOpener sends the
// request together with the protocol proposal. A peer that does not speak the protocol
// refuses the proposal.
type lazyOpener struct{ net network.Network }

// NewStream implements streamOpener. ids must hold exactly one protocol.
func (e lazyOpener) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := e.net.NewStream(ctx, p) // dials if there is no connection
	if err != nil {
		return nil, err
	}
	if err := s.SetProtocol(ids[0]); err != nil {
		_ = s.ResetWithError(network.StreamResourceLimitExceeded)
		return nil, err
	}
	return &lazyStream{Stream: s, rw: multistream.NewMSSelect(s, ids[0])}, nil
}

// lazyStream is a stream that negotiates its protocol with its first bytes.
type lazyStream struct {
	network.Stream
	rw io.ReadWriteCloser
}

func (s *lazyStream) Read(p []byte) (int, error)  { return s.rw.Read(p) }
func (s *lazyStream) Write(p []byte) (int, error) { return s.rw.Write(p) }
