package p2p

import (
	"log/slog"
	"net"
	"sync"
)

// wantUDPBuffer is the size in bytes of the receive buffer that quic-go asks the kernel
// for. With less, bursts are lost and bulk transfers over QUIC slow down.
const wantUDPBuffer = 7 << 20

var udpOnce sync.Once

// warnUDPBuffers logs a warning, once per process, if the kernel gives UDP sockets small
// buffers. quic-go has its own warning, which bypasses our logger; cmd/allium turns it off.
func warnUDPBuffers(l *slog.Logger) {
	udpOnce.Do(func() {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return // the host fails to listen for the same reason, and reports it
		}
		defer conn.Close()
		if got, ok := grownUDPBuffer(conn); ok && got < wantUDPBuffer {
			l.Warn("UDP receive buffers are small, QUIC will be slow: run sysctl -w net.core.rmem_max=7500000 "+
				"net.core.wmem_max=7500000",
				"have_bytes", got, "want_bytes", wantUDPBuffer)
		}
	})
}
