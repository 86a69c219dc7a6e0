package object

import (
	"time"

	"allium/internal/limits"
)

// Params are the fixed bounds of the object protocol. Tests set other values through
// [Config].
type Params struct {
	// ReadTimeout is the time that a stream may make no progress within a frame or an answer, in addition to the time
	// that MinRate allows. Then the stream is reset.
	ReadTimeout time.Duration `fixed:"read_timeout"`

	// WriteTimeout is the time that a peer may read nothing while data waits for it, in addition to the time that
	// MinRate allows. Then the stream is reset.
	WriteTimeout time.Duration `fixed:"write_timeout"`

	// IdleTimeout is the time that a served stream stays open without a request.
	IdleTimeout time.Duration `fixed:"idle_timeout"`

	// PermitWait is the longest wait for a serving permit or for egress bytes. Then the request gets
	// busy. It is shorter than ReadTimeout, so a peer receives busy before it times out.
	PermitWait time.Duration `fixed:"permit_wait"`

	// InboundStreams is the most streams served at the same time. The server resets further streams.
	InboundStreams int64 `fixed:"inbound_streams"`

	// Pipeline is the most requests of one stream that wait to be served. With so many waiting, the
	// server does not read the stream.
	Pipeline int `fixed:"pipeline"`

	// ServingWait is the most requests that wait for one of Serving permits. Further requests get
	// busy.
	ServingWait int64 `fixed:"serving_wait"`

	// Putting is the most puts of peers that are served at the same time, apart from Serving, so that
	// neither keeps the other waiting. It is far below the ingests of the store, which the fetches of
	// this node share.
	Putting int64 `fixed:"putting"`

	// PuttingWait is the most puts that wait for one of Putting permits. Further puts get busy.
	PuttingWait int64 `fixed:"putting_wait"`

	// Repairing is the most puts for repairs that are served at the same time, apart from Putting: those
	// are slow, and somebody waits for the others. PuttingWait more wait.
	Repairing int64 `fixed:"repairing"`

	// RepairPause replaces ReadTimeout and WriteTimeout between the frames of a put for a repair, as both sides may
	// wait for their rate of repairs.
	RepairPause time.Duration `fixed:"repair_pause"`

	// CommitTimeout is the time that a client waits for the answer to a put after it sent the last item. The peer makes
	// the object durable meanwhile, perhaps in a bucket.
	CommitTimeout time.Duration `fixed:"commit_timeout"`

	// FrameBytes is the longest frame of an answer in bytes, including its header. A value above
	// 72 KiB allows several groups in a frame, in a buffer of 1 MiB. It must hold a START frame and a
	// size proof, and is at most oap.MaxFrame.
	FrameBytes limits.Bytes `fixed:"frame_bytes"`

	// PeerEgressBytes is the most bytes of buffered answers for one peer. Further answers wait up to
	// PermitWait.
	PeerEgressBytes limits.Bytes `fixed:"peer_egress_bytes"`

	// OpenTimeout is the longest wait for a new stream, including the dial. It is longer than the dial
	// timeout of the host.
	OpenTimeout time.Duration `fixed:"open_timeout"`

	// StreamIdle is the time that an unused stream is kept for the next request. It is shorter than
	// the IdleTimeout of the other side.
	StreamIdle time.Duration `fixed:"stream_idle"`

	// StreamsPerPeer is the most requests in flight to one peer, and so the most open streams to it.
	// Further callers wait.
	StreamsPerPeer int64 `fixed:"streams_per_peer"`

	// Streams is the most open streams to all peers. A caller that needs one more closes the least
	// recently used idle stream; if no stream is idle, it waits.
	Streams int64 `fixed:"streams"`

	// StreamsWait is the most callers that wait for a stream, in total and for one peer. Further
	// callers get busy.
	StreamsWait int64 `fixed:"streams_wait"`
}

// defaultParams returns the fixed values.
func defaultParams() Params {
	return Params{
		ReadTimeout:     5 * time.Second,
		WriteTimeout:    5 * time.Second,
		IdleTimeout:     30 * time.Second,
		PermitWait:      4 * time.Second,
		InboundStreams:  1024,
		Pipeline:        8,
		ServingWait:     512,
		Putting:         32,
		PuttingWait:     64,
		Repairing:       16,
		RepairPause:     time.Minute,
		CommitTimeout:   2 * time.Minute,
		FrameBytes:      oneGroup,
		PeerEgressBytes: 4 << 20,
		OpenTimeout:     8 * time.Second,
		StreamIdle:      10 * time.Second,
		StreamsPerPeer:  8,
		Streams:         256,
		StreamsWait:     1024,
	}
}
