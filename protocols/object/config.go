package object

import (
	"fmt"
	"time"

	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/oap"
)

// Config bounds both sides of the protocol. Every field has a default.
type Config struct {
	// Both sides.
	ReadTimeout  time.Duration `koanf:"read_timeout" doc:"how long a stream may stand still in the middle of a frame or of an answer, beside the time that min_rate allows, before it is reset"`
	WriteTimeout time.Duration `koanf:"write_timeout" doc:"how long a peer may take nothing of what is there for it, beside the time that min_rate allows, before the stream is reset"`
	MinRate      limits.Bytes  `koanf:"min_rate" doc:"bytes per second of one stream below which a peer that is inside a frame, or has an answer to take, is reset; time that the sender needs for itself, for its store or serve_rate, does not count"`

	// Server.
	IdleTimeout     time.Duration `koanf:"idle_timeout" doc:"how long a served stream stays open with nothing asked on it"`
	PermitWait      time.Duration `koanf:"permit_wait" doc:"longest wait for a serving permit or for egress bytes; then busy"`
	InboundStreams  int64         `koanf:"inbound_streams" doc:"streams served at once, in all; the next is reset"`
	Pipeline        int           `koanf:"pipeline" doc:"requests of one stream waiting to be served; the stream is not read while they are that many"`
	PeerInflight    int64         `koanf:"peer_inflight" doc:"requests of one peer waiting or being served, over all its streams; the next is refused with busy"`
	Serving         int64         `koanf:"serving" doc:"requests being served at once, in all"`
	ServingWait     int64         `koanf:"serving_wait" doc:"requests waiting for a serving permit, in all; the next is refused with busy"`
	FrameBytes      limits.Bytes  `koanf:"frame_bytes" doc:"longest frame of an answer in bytes, header included; above 72 KiB it holds several groups in a buffer of 1 MiB"`
	EgressBytes     limits.Bytes  `koanf:"egress_bytes" doc:"bytes of such buffers in use at once, in all"`
	PeerEgressBytes limits.Bytes  `koanf:"peer_egress_bytes" doc:"bytes of such buffers in use at once for one peer"`

	ServeRate limits.Bytes `koanf:"serve_rate" doc:"bytes of objects sent per second, to all peers together; 0 is as many as the network takes. What would wait longer than permit_wait for its turn is refused with rate_limit"`

	// Client.
	OpenTimeout    time.Duration `koanf:"open_timeout" doc:"longest wait for a new stream, dial included"`
	StreamIdle     time.Duration `koanf:"stream_idle" doc:"how long an unused stream is kept for the next request; shorter than the other side's idle_timeout"`
	StreamsPerPeer int64         `koanf:"streams_per_peer" doc:"requests in flight to one peer, and so streams open to it; more callers wait"`
	Streams        int64         `koanf:"streams" doc:"streams open to all peers; more callers wait, after the least recently used idle stream was closed"`
	StreamsWait    int64         `koanf:"streams_wait" doc:"callers waiting for a stream, in all and for one peer; the next gets busy"`
}

// DefaultConfig returns the limits of SPEC §2.
func DefaultConfig() Config {
	return Config{
		ReadTimeout:  5 * time.Second,
		WriteTimeout: 5 * time.Second,
		MinRate:      8 << 10,

		IdleTimeout:     30 * time.Second,
		PermitWait:      4 * time.Second, // so that a peer hears busy before its own 5 s are over
		InboundStreams:  1024,
		Pipeline:        8,
		PeerInflight:    32,
		Serving:         512,
		ServingWait:     512,
		FrameBytes:      oneGroup,
		EgressBytes:     64 << 20,
		PeerEgressBytes: 4 << 20,

		OpenTimeout:    8 * time.Second,
		StreamIdle:     10 * time.Second,
		StreamsPerPeer: 8,
		Streams:        256,
		StreamsWait:    1024,
	}
}

// Validate reports the first field that is out of its bounds.
func (c Config) Validate() error {
	for _, d := range []struct {
		key string
		d   time.Duration
	}{
		{"read_timeout", c.ReadTimeout}, {"write_timeout", c.WriteTimeout}, {"idle_timeout", c.IdleTimeout},
		{"permit_wait", c.PermitWait}, {"open_timeout", c.OpenTimeout}, {"stream_idle", c.StreamIdle},
	} {
		if d.d <= 0 {
			return fmt.Errorf("object.%s is %s: must be above 0", d.key, d.d)
		}
	}
	for _, n := range []struct {
		key string
		n   int64
		min int64
	}{
		{"min_rate", int64(c.MinRate), 1}, {"inbound_streams", c.InboundStreams, 1}, {"pipeline", int64(c.Pipeline), 1}, {"peer_inflight", c.PeerInflight, 1},
		{"serving", c.Serving, 1}, {"serving_wait", c.ServingWait, 0}, {"frame_bytes", int64(c.FrameBytes), minFrameBytes},
		{"egress_bytes", int64(c.EgressBytes), minEgress}, {"peer_egress_bytes", int64(c.PeerEgressBytes), minEgress},
		{"serve_rate", int64(c.ServeRate), 0},
		{"streams_per_peer", c.StreamsPerPeer, 1}, {"streams", c.Streams, 1}, {"streams_wait", c.StreamsWait, 0},
	} {
		if n.n < n.min {
			return fmt.Errorf("object.%s is %d: must be at least %d", n.key, n.n, n.min)
		}
	}
	if c.FrameBytes > oap.MaxFrame {
		return fmt.Errorf("object.frame_bytes is %d: must be at most %d", c.FrameBytes, oap.MaxFrame)
	}
	if c.ServeRate > 0 && float64(c.ServeRate)*c.PermitWait.Seconds() < float64(c.FrameBytes) {
		return fmt.Errorf("object.serve_rate is %d: a frame of object.frame_bytes (%d) would take longer than object.permit_wait (%s)", c.ServeRate, c.FrameBytes, c.PermitWait)
	}
	return nil
}

// minEgress has room for the buffers of any one frame.
const minEgress = batchBytes + oap.MaxFrame

// minFrameBytes has room for a START frame, and for a whole size proof (a
// group and the longest right spine) in one frame.
const minFrameBytes = b3.GroupSize + 64*b3.ParentSize + 1024
