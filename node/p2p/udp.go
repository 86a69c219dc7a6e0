package p2p

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"

	ma "github.com/multiformats/go-multiaddr"
)

// wantUDPBuffer is what quic-go asks the kernel for, bytes. With less, bursts
// are lost and bulk transfers over QUIC slow down.
const wantUDPBuffer = 7 << 20

var udpOnce sync.Once

// warnUDPBuffers says once per process when the kernel gives UDP sockets small
// buffers. quic-go says the same past our logger, so it is told not to.
func warnUDPBuffers(l *slog.Logger) {
	udpOnce.Do(func() {
		_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true")
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return // listening will say what is wrong
		}
		defer conn.Close()
		if got, ok := grownUDPBuffer(conn); ok && got < wantUDPBuffer {
			l.Warn("UDP receive buffers are small, QUIC will be slow: run sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000",
				"have_bytes", got, "want_bytes", wantUDPBuffer)
		}
	})
}

// trimQUIC leaves the part of a listen address that a net.Addr can say.
func trimQUIC(a ma.Multiaddr) ma.Multiaddr {
	if head, last := ma.SplitLast(a); last != nil && last.Protocol().Code == ma.P_QUIC_V1 {
		return head
	}
	return a
}

// addrPort is the address of a TCP or UDP listener; zero for anything else.
func addrPort(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.AddrPort()
	case *net.UDPAddr:
		return a.AddrPort()
	}
	return netip.AddrPort{}
}
