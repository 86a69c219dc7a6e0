package fault

import (
	"encoding/binary"
	"net"

	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// With these methods quic-go reads and writes many packets at a time, which is
// several times as fast. It looks for them by their names
// (quic.OOBCapablePacketConn).

// ReadBatch is of [ipv4.PacketConn]. A packet that was cut off becomes an empty
// one, which quic-go ignores: its place among the buffers cannot be given to
// another.
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

// ReadMsgUDP is of [net.UDPConn]; quic-go asks for it, and uses ReadBatch.
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

// WriteMsgUDP is of [net.UDPConn]. While there is a fault, what was to be
// segmented by the kernel is taken apart here, and what else oob asks for is not
// done.
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

// segmentSize is the UDP_SEGMENT among control messages; 0: it is one packet.
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
