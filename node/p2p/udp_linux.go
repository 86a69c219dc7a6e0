package p2p

import (
	"net"

	"golang.org/x/sys/unix"
)

// grownUDPBuffer asks for wantUDPBuffer the way quic-go does. It returns the size that the
// kernel gave, in bytes, and false if that cannot be read.
func grownUDPBuffer(conn *net.UDPConn) (int, bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, false
	}
	var size int
	ok := false
	err = raw.Control(func(fd uintptr) {
		// SO_RCVBUFFORCE ignores the system's limit, but needs CAP_NET_ADMIN.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, wantUDPBuffer)
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, wantUDPBuffer)
		var gerr error
		size, gerr = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		ok = gerr == nil
	})
	return size, ok && err == nil
}
