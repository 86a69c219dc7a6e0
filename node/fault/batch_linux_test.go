package fault

import (
	"encoding/binary"
	"net"
	"testing"
	"unsafe"

	"github.com/quic-go/quic-go"
	"golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"
)

// quic-go looks for these by their methods, and would do without them in silence.
var _ interface {
	quic.OOBCapablePacketConn
	ReadBatch(ms []ipv4.Message, flags int) (int, error)
} = faultySocket{}

// TestSegments: what the kernel was to segment is taken apart while there is a
// fault, and what comes from a peer that is cut off is empty.
func TestSegments(t *testing.T) {
	f := NewLinks(nil)
	defer f.Close()
	open := func() faultySocket {
		c, err := f.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.(faultySocket)
	}
	from, at := open(), open()
	to := at.LocalAddr().(*net.UDPAddr)
	oob := make([]byte, unix.CmsgSpace(2)) // UDP_SEGMENT of 1,000 bytes
	head := (*unix.Cmsghdr)(unsafe.Pointer(&oob[0]))
	head.Level, head.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
	head.SetLen(unix.CmsgLen(2))
	binary.NativeEndian.PutUint16(oob[unix.CmsgLen(0):], 1000)

	read := func() (all []int) {
		ms := make([]ipv4.Message, 4)
		for i := range ms {
			ms[i].Buffers, ms[i].OOB = [][]byte{make([]byte, 2000)}, make([]byte, 100)
		}
		n, err := at.ReadBatch(ms, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms[:n] {
			all = append(all, m.N)
		}
		return all
	}
	for name, links := range map[string][]Link{"none": nil, "of another link": {{Peer: far, Cut: true}}} {
		f.Set(links, 0)
		if n, _, err := from.WriteMsgUDP(make([]byte, 2500), oob, to); n != 2500 || err != nil {
			t.Fatal(n, err)
		}
		var got []int
		for len(got) < 3 {
			got = append(got, read()...)
		}
		if got[0] != 1000 || got[1] != 1000 || got[2] != 500 {
			t.Errorf("a fault, %s: packets of %v bytes", name, got)
		}
	}
	// Cut off at the reader.
	f.Set(nil, 0)
	if _, _, err := from.WriteMsgUDP([]byte("x"), nil, to); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.seen[plain(from.LocalAddr().(*net.UDPAddr).AddrPort())] = far
	f.mu.Unlock()
	f.Set([]Link{{Peer: far, Cut: true}}, 0)
	if got := read(); len(got) != 1 || got[0] != 0 {
		t.Errorf("from a peer that is cut off: packets of %v bytes", got)
	}
}
