package session

import (
	"time"

	"allium/internal/limits"
	"allium/protocols/oap"
)

// Params are the numbers of sessions that nobody tunes. Tests set them through [Config].
type Params struct {
	// MaxFrame is the largest frame this node takes, header included; HELLO tells the peer. A larger
	// one resets the stream. It lies between oap.MinMaxFrame and oap.MaxFrame.
	MaxFrame limits.Bytes `fixed:"max_frame"`

	// MaxInflight bounds the requests of one session being answered at once; HELLO tells the peer. The
	// next is refused with busy. EgressFrames has room for all of their answers.
	MaxInflight int64 `fixed:"max_inflight"`

	// CreditWindow is how many frames a peer that asks for credit may send unacknowledged. A peer that
	// sends more breaks the protocol.
	CreditWindow int64 `fixed:"credit_window"`

	// HandshakeTimeout bounds the time from opening a session stream to the end of both HELLOs. The
	// stream is reset then.
	HandshakeTimeout time.Duration `fixed:"handshake_timeout"`

	// ReadTimeout is how long a stream may stand still inside a frame, beside the time that MinRate
	// allows, before it is reset.
	ReadTimeout time.Duration `fixed:"read_timeout"`

	// WriteTimeout is how long a peer may take nothing of what is there for it, beside the time that
	// MinRate allows, before the stream is reset.
	WriteTimeout time.Duration `fixed:"write_timeout"`

	// MinRate is the bytes per second below which a peer that is inside a frame, or has frames to
	// take, is reset.
	MinRate limits.Bytes `fixed:"min_rate"`

	// RequestTimeout bounds a peer's request; its deadline_ms may shorten it. The request gets timeout
	// then. It is below IdleTimeout, so that no session closes under a request.
	RequestTimeout time.Duration `fixed:"request_timeout"`

	// OpenTimeout bounds the opening of a session, dial included. It is above the dial timeout of the
	// host.
	OpenTimeout time.Duration `fixed:"open_timeout"`

	// PermitWait bounds the wait for a place among the requests in flight or in the egress queue; then
	// busy.
	PermitWait time.Duration `fixed:"permit_wait"`

	// Ingress bounds the requests of all peers waiting for a worker, which take turns by peer. Beyond
	// it the newest of the peer that has most is refused with busy.
	Ingress int64 `fixed:"ingress"`

	// Workers bounds the requests of all peers being handled at once. A peer gets one more while it
	// has fewer than are free, so alone it takes half of them.
	Workers int64 `fixed:"workers"`

	// EgressFrames bounds the frames of one peer promised or waiting to be written; EgressPolicy says
	// what happens beyond. It is at least MaxInflight.
	EgressFrames int64 `fixed:"egress_frames"`

	// PeerEgressBytes bounds the bytes of one peer waiting to be written; EgressPolicy says what
	// happens beyond. It is at least oap.MaxFrame and at most EgressBytes.
	PeerEgressBytes limits.Bytes `fixed:"peer_egress_bytes"`

	// PeerSessions bounds the sessions that one peer may have opened at once. Its oldest is closed for
	// the next.
	PeerSessions int64 `fixed:"peer_sessions"`

	// Handshakes bounds the sessions of peers that wait for their HELLO. The next is reset.
	Handshakes int64 `fixed:"handshakes"`
}

// defaultParams returns the values that hold.
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
