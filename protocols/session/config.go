package session

import (
	"fmt"
	"time"

	"allium/internal/limits"
	"allium/protocols/oap"
)

// Config bounds the sessions of a node. Every field has a default.
type Config struct {
	MaxFrame     limits.Bytes `koanf:"max_frame" doc:"largest frame this node takes, in bytes, header included; 128 KiB to 1 MiB"`
	MaxInflight  int64        `koanf:"max_inflight" doc:"requests of one session being answered at once; the next is refused with busy"`
	CreditWindow int64        `koanf:"credit_window" doc:"frames a peer that asks for credit may send unacknowledged"`

	HandshakeTimeout time.Duration `koanf:"handshake_timeout" doc:"longest time from opening a session stream to the end of both HELLOs"`
	ReadTimeout      time.Duration `koanf:"read_timeout" doc:"how long a stream may stand still inside a frame, beside the time that min_rate allows, before it is reset"`
	WriteTimeout     time.Duration `koanf:"write_timeout" doc:"how long a peer may take nothing of what is there for it, beside the time that min_rate allows, before the stream is reset"`
	MinRate          limits.Bytes  `koanf:"min_rate" doc:"bytes per second below which a peer that is inside a frame, or has frames to take, is reset"`
	IdleTimeout      time.Duration `koanf:"idle_timeout" doc:"how long a session without requests stays open; pings do not count"`
	RequestTimeout   time.Duration `koanf:"request_timeout" doc:"longest time a peer's request may take; its deadline_ms may shorten it; below idle_timeout"`
	OpenTimeout      time.Duration `koanf:"open_timeout" doc:"longest time to open a session, dial included"`
	PermitWait       time.Duration `koanf:"permit_wait" doc:"longest wait for a place among the requests in flight or in the egress queue; then busy"`

	ControlRate     int64        `koanf:"control_rate" doc:"requests per second of one peer, with as many in a burst; the next is refused with busy. What waits for no answer (events, ACKs, answers nobody waits for) counts too; beyond the rate the session is not read until it has its turn"`
	Ingress         int64        `koanf:"ingress" doc:"requests of all peers waiting for a worker, which take turns by peer; what is over is refused with busy"`
	Workers         int64        `koanf:"workers" doc:"requests of all peers being handled at once; a peer gets one more while it has fewer than are free, so alone half of them"`
	EgressFrames    int64        `koanf:"egress_frames" doc:"frames of one peer promised or waiting to be written"`
	PeerEgressBytes limits.Bytes `koanf:"peer_egress_bytes" doc:"bytes of one peer waiting to be written"`
	EgressPolicy    Overflow     `koanf:"egress_policy" doc:"what makes room in the egress queue of a peer: reject, nothing, so that calls wait up to permit_wait and then get busy; drop_oldest, the oldest that is not being written: a call, which gets busy at once, and for bytes also an answer, which becomes busy"`
	EgressBytes     limits.Bytes `koanf:"egress_bytes" doc:"bytes of all peers waiting to be written; when they are short, who holds most makes room for who holds less: its oldest becomes busy"`
	Sessions        int64        `koanf:"sessions" doc:"sessions open at once, in all; the next is reset"`
	PeerSessions    int64        `koanf:"peer_sessions" doc:"sessions that one peer may have opened at once; its oldest makes room for the next"`
	Handshakes      int64        `koanf:"handshakes" doc:"sessions of peers that may wait for their HELLO at once; the next is reset"`
}

// DefaultConfig returns the limits of SPEC §2 (macronode).
func DefaultConfig() Config {
	return Config{
		MaxFrame:     oap.MaxFrame,
		MaxInflight:  32,
		CreditWindow: 64,

		HandshakeTimeout: 3 * time.Second,
		ReadTimeout:      5 * time.Second,
		WriteTimeout:     5 * time.Second,
		MinRate:          8 << 10,
		IdleTimeout:      30 * time.Second,
		RequestTimeout:   10 * time.Second,
		OpenTimeout:      8 * time.Second,
		PermitWait:       5 * time.Second,

		ControlRate:     200,
		Ingress:         512,
		Workers:         64,
		EgressFrames:    512,
		PeerEgressBytes: 4 << 20,
		EgressBytes:     64 << 20,
		EgressPolicy:    Reject,
		Sessions:        16384,
		PeerSessions:    4,
		Handshakes:      1024,
	}
}

// Validate reports the first field that is out of its bounds.
func (c Config) Validate() error {
	for _, d := range []struct {
		key string
		d   time.Duration
	}{
		{"handshake_timeout", c.HandshakeTimeout}, {"read_timeout", c.ReadTimeout}, {"write_timeout", c.WriteTimeout},
		{"idle_timeout", c.IdleTimeout}, {"request_timeout", c.RequestTimeout}, {"open_timeout", c.OpenTimeout}, {"permit_wait", c.PermitWait},
	} {
		if d.d <= 0 {
			return fmt.Errorf("session.%s is %s: must be above 0", d.key, d.d)
		}
	}
	for _, n := range []struct {
		key         string
		n, min, max int64
	}{
		{"max_frame", int64(c.MaxFrame), oap.MinMaxFrame, oap.MaxFrame},
		{"max_inflight", c.MaxInflight, 1, 4096},
		{"credit_window", c.CreditWindow, 1, 1 << 20},
		{"min_rate", int64(c.MinRate), 1, 1 << 40},
		{"control_rate", c.ControlRate, 1, 1 << 20},
		{"ingress", c.Ingress, 1, 1 << 20},
		{"workers", c.Workers, 1, 1 << 16},
		{"egress_frames", c.EgressFrames, c.MaxInflight, 1 << 16},
		{"peer_egress_bytes", int64(c.PeerEgressBytes), oap.MaxFrame, int64(c.EgressBytes)},
		{"egress_bytes", int64(c.EgressBytes), oap.MaxFrame, 1 << 40},
		{"sessions", c.Sessions, 1, 1 << 24},
		{"peer_sessions", c.PeerSessions, 1, 1 << 10},
		{"handshakes", c.Handshakes, 1, 1 << 24},
	} {
		if n.n < n.min || n.n > n.max {
			return fmt.Errorf("session.%s is %d: must be between %d and %d", n.key, n.n, n.min, n.max)
		}
	}
	if err := c.EgressPolicy.Validate(); err != nil {
		return fmt.Errorf("session.egress_policy: %w", err)
	}
	if c.RequestTimeout >= c.IdleTimeout {
		return fmt.Errorf("session.request_timeout is %s: must be below idle_timeout, %s", c.RequestTimeout, c.IdleTimeout)
	}
	return nil
}
