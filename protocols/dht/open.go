package dht

import (
	"context"
	"io"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/multiformats/go-multistream"
)

// eager opens streams on a network itself, not by way of the host: the host
// waits until a new connection has been identified, a round trip of its own,
// before it lets anyone use it. Here the request goes out with the proposal of
// the protocol; a peer that does not speak it is told from one by the answer.
type eager struct{ net network.Network }

// NewStream implements streamOpener, for exactly one protocol.
func (e eager) NewStream(ctx context.Context, p peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := e.net.NewStream(ctx, p) // dials when there is no connection
	if err != nil {
		return nil, err
	}
	if err := s.SetProtocol(ids[0]); err != nil {
		_ = s.ResetWithError(network.StreamResourceLimitExceeded)
		return nil, err
	}
	return &proposing{Stream: s, rw: multistream.NewMSSelect(s, ids[0])}, nil
}

// proposing is a stream whose protocol is negotiated with its first bytes.
type proposing struct {
	network.Stream
	rw io.ReadWriteCloser
}

func (s *proposing) Read(p []byte) (int, error)  { return s.rw.Read(p) }
func (s *proposing) Write(p []byte) (int, error) { return s.rw.Write(p) }
