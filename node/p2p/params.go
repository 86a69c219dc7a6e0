package p2p

import (
	"time"

	"allium/internal/limits"
)

// Params are the numbers of a host that nobody tunes. Tests set them through [Config].
type Params struct {
	// ConnGrace is the age below which a connection is not trimmed, even above ConnsHigh: a new one
	// has had no time to prove useful.
	ConnGrace time.Duration `fixed:"conn_grace"`

	// DialTimeout bounds one dial, its handshake included. A dial that takes longer fails; session and
	// object streams wait up to 8 s for theirs.
	DialTimeout time.Duration `fixed:"dial_timeout"`

	// MuxInitialWindow is the number of bytes that a new yamux stream may receive before they are read. The
	// sender then waits. It grows up to MuxMaxWindow.
	MuxInitialWindow limits.Bytes `fixed:"mux_initial_window"`

	// MuxMaxWindow is the maximum size in bytes of the window of a yamux stream: 8 MiB carry 80 MB/s
	// over a round trip of 100 ms. MaxMemory bounds the windows of all streams together.
	MuxMaxWindow limits.Bytes `fixed:"mux_max_window"`
}

// defaultParams returns the values that every node uses.
func defaultParams() Params {
	return Params{
		ConnGrace:        time.Minute,
		DialTimeout:      5 * time.Second,
		MuxInitialWindow: 1 << 20,
		MuxMaxWindow:     8 << 20,
	}
}
