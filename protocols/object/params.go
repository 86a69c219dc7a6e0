package object

import (
	"time"

	"allium/internal/limits"
)

// Params are the numbers of the object protocol that nobody tunes. Tests set them through [Config].
type Params struct {
	// ReadTimeout is how long a stream may stand still in the middle of a frame or of an answer,
	// beside the time that MinRate allows, before it is reset.
	ReadTimeout time.Duration `fixed:"read_timeout"`

	// WriteTimeout is how long a peer may take nothing of what is there for it, beside the time that
	// MinRate allows, before the stream is reset.
	WriteTimeout time.Duration `fixed:"write_timeout"`

	// IdleTimeout is how long a served stream stays open with nothing asked on it.
	IdleTimeout time.Duration `fixed:"idle_timeout"`

	// PermitWait bounds the wait for a serving permit or for egress bytes; then busy. It is below
	// ReadTimeout, so that a peer hears busy before it gives up.
	PermitWait time.Duration `fixed:"permit_wait"`

	// InboundStreams bounds the streams served at once, in all. The next is reset.
	InboundStreams int64 `fixed:"inbound_streams"`

	// Pipeline bounds the requests of one stream waiting to be served. The stream is not read while
	// they are that many.
	Pipeline int `fixed:"pipeline"`

	// ServingWait bounds the requests waiting for one of Serving permits. The next is refused with
	// busy.
	ServingWait int64 `fixed:"serving_wait"`

	// FrameBytes is the longest frame of an answer, header included. Above 72 KiB it holds several
	// groups in a buffer of 1 MiB. It has room for a START frame and a size proof, and is at most
	// oap.MaxFrame.
	FrameBytes limits.Bytes `fixed:"frame_bytes"`

	// PeerEgressBytes bounds the bytes of answers in buffers for one peer. Its requests wait up to
	// PermitWait for room.
	PeerEgressBytes limits.Bytes `fixed:"peer_egress_bytes"`

	// OpenTimeout bounds the wait for a new stream, dial included. It is above the dial timeout of the
	// host.
	OpenTimeout time.Duration `fixed:"open_timeout"`

	// StreamIdle is how long an unused stream is kept for the next request. It is shorter than the
	// IdleTimeout of the other side.
	StreamIdle time.Duration `fixed:"stream_idle"`

	// StreamsPerPeer bounds the requests in flight to one peer, and so the streams open to it. More
	// callers wait.
	StreamsPerPeer int64 `fixed:"streams_per_peer"`

	// Streams bounds the streams open to all peers. More callers wait, after the least recently used
	// idle stream was closed.
	Streams int64 `fixed:"streams"`

	// StreamsWait bounds the callers waiting for a stream, in all and for one peer. The next gets
	// busy.
	StreamsWait int64 `fixed:"streams_wait"`
}

// defaultParams returns the values that hold.
func defaultParams() Params {
	return Params{
		ReadTimeout:     5 * time.Second,
		WriteTimeout:    5 * time.Second,
		IdleTimeout:     30 * time.Second,
		PermitWait:      4 * time.Second,
		InboundStreams:  1024,
		Pipeline:        8,
		ServingWait:     512,
		FrameBytes:      oneGroup,
		PeerEgressBytes: 4 << 20,
		OpenTimeout:     8 * time.Second,
		StreamIdle:      10 * time.Second,
		StreamsPerPeer:  8,
		Streams:         256,
		StreamsWait:     1024,
	}
}
