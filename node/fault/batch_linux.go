package fault

import (
	"encoding/binary"
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// With these methods quic-go reads and writes many packets at a time, which is several
// times as fast. It uses them if a socket has all of them (quic.OOBCapablePacketConn).

// ReadBatch is like the method of [ipv4.PacketConn]. It makes the packets of a peer that is
// cut off empty, and quic-go ignores empty packets. It cannot remove them, because each has
// its place among the caller's buffers.
func (c faultySocket) ReadBatch(ms []ipv4.Message, flags int) (int, error) {
	n, err := c.batch.ReadBatch(ms, flags)
	st := c.f.state.Load()
	if err != nil || st.clean() {
		return n, err
	}
	for i := range ms[:n] {
		if l := c.f.to(st, ms[i].Addr); l != nil && l.Cut {
			c.f.cut.Inc()
			ms[i].N = 0
		}
	}
	return n, nil
}

// ReadMsgUDP is like the method of [net.UDPConn], but drops the packets of a peer that is
// cut off. quic-go requires the method, but calls ReadBatch.
func (c faultySocket) ReadMsgUDP(b, oob []byte) (n, oobn, flags int, addr *net.UDPAddr, err error) {
	for {
		n, oobn, flags, addr, err = c.udp.ReadMsgUDP(b, oob)
		if err == nil {
			if l := c.f.to(c.f.state.Load(), addr); l != nil && l.Cut {
				c.f.cut.Inc()
				continue
			}
		}
		return n, oobn, flags, addr, err
	}
}

// WriteMsgUDP is like the method of [net.UDPConn]. While there is a fault, it splits b into
// the packets into which the kernel would split it, and ignores all other control messages.
func (c faultySocket) WriteMsgUDP(b, oob []byte, to *net.UDPAddr) (n, oobn int, err error) {
	if c.f.state.Load().clean() {
		return c.udp.WriteMsgUDP(b, oob, to)
	}
	size := segmentSize(oob)
	for n < len(b) {
		k := len(b) - n
		if size > 0 {
			k = min(k, size)
		}
		if _, err := c.WriteTo(b[n:n+k], to); err != nil {
			return n, 0, err
		}
		n += k
	}
	return n, len(oob), nil
}

// segmentSize returns the packet size in bytes that the control message UDP_SEGMENT asks
// for, and 0 if there is no such message: then all bytes are one packet.
func segmentSize(oob []byte) int {
	for len(oob) > 0 {
		h, body, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return 0
		}
		if h.Level == unix.IPPROTO_UDP && h.Type == unix.UDP_SEGMENT && len(body) >= 2 {
			return int(binary.NativeEndian.Uint16(body))
		}
		oob = rest
	}
	return 0
}
