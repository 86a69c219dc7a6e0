package session

import (
	"time"

	"allium/internal/limits"
	"allium/protocols/oap"
)

// Params are the fixed bounds of sessions. Tests set other values through [Config].
type Params struct {
	// MaxFrame is the longest frame in bytes that this node accepts, including the header. HELLO
	// tells it to the peer. A longer frame resets the stream. It lies between oap.MinMaxFrame and
	// oap.MaxFrame.
	MaxFrame limits.Bytes `fixed:"max_frame"`

	// MaxInflight is the most requests of one session that are answered at the same time. HELLO tells
	// it to the peer. Further requests get busy. EgressFrames is enough for all of their answers.
	MaxInflight int64 `fixed:"max_inflight"`

	// CreditWindow is the most unacknowledged frames of a peer that asks for credit. A peer that
	// sends more breaks the protocol.
	CreditWindow int64 `fixed:"credit_window"`

	// HandshakeTimeout is the longest time from opening a session stream to the end of both HELLOs.
	// Then the stream is reset.
	HandshakeTimeout time.Duration `fixed:"handshake_timeout"`

	// ReadTimeout is the time that a stream may make no progress within a frame, in addition to the
	// time that MinRate allows. Then the stream is reset.
	ReadTimeout time.Duration `fixed:"read_timeout"`

	// WriteTimeout is the time that a peer may read nothing while frames wait for it, in addition to
	// the time that MinRate allows. Then the stream is reset.
	WriteTimeout time.Duration `fixed:"write_timeout"`

	// MinRate is the lowest rate in bytes per second at which a peer must send a frame and read
	// frames. A slower peer is reset.
	MinRate limits.Bytes `fixed:"min_rate"`

	// RequestTimeout is the longest time of a peer's request; its deadline_ms may shorten it. Then
	// the request gets timeout. It is below IdleTimeout, so no session closes during a request.
	RequestTimeout time.Duration `fixed:"request_timeout"`

	// OpenTimeout is the longest time to open a session, including the dial. It is longer than the
	// dial timeout of the host.
	OpenTimeout time.Duration `fixed:"open_timeout"`

	// PermitWait is the longest wait for a place among the requests in flight or in the egress queue.
	// Then the call gets busy.
	PermitWait time.Duration `fixed:"permit_wait"`

	// Ingress is the most requests of all peers that wait for a worker, in a fair queue by peer. When
	// it is full, the peer with the most waiting requests loses its newest, which gets busy.
	Ingress int64 `fixed:"ingress"`

	// Workers is the most requests of all peers that are handled at the same time. A peer gets one
	// more while it has fewer than are free, so a single peer gets half of them.
	Workers int64 `fixed:"workers"`

	// EgressFrames is the most frames of one peer that have a permit or wait to be written.
	// EgressPolicy says what happens beyond. It is at least MaxInflight.
	EgressFrames int64 `fixed:"egress_frames"`

	// PeerEgressBytes is the most bytes of one peer that wait to be written. EgressPolicy says what
	// happens beyond. It is at least oap.MaxFrame and at most EgressBytes.
	PeerEgressBytes limits.Bytes `fixed:"peer_egress_bytes"`

	// PeerSessions is the most sessions that one peer may have opened at the same time. A further one
	// replaces the oldest.
	PeerSessions int64 `fixed:"peer_sessions"`

	// Handshakes is the most sessions of peers that are before their HELLO. Further ones are reset.
	Handshakes int64 `fixed:"handshakes"`
}

// defaultParams returns the fixed values.
func defaultParams() Params {
	return Params{
		MaxFrame:         oap.MaxFrame,
		MaxInflight:      32,
		CreditWindow:     64,
		HandshakeTimeout: 3 * time.Second,
		ReadTimeout:      5 * time.Second,
		WriteTimeout:     5 * time.Second,
		MinRate:          8 << 10,
		RequestTimeout:   10 * time.Second,
		OpenTimeout:      8 * time.Second,
		PermitWait:       5 * time.Second,
		Ingress:          512,
		Workers:          64,
		EgressFrames:     512,
		PeerEgressBytes:  4 << 20,
		PeerSessions:     4,
		Handshakes:       1024,
	}
}
