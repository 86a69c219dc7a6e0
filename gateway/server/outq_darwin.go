package server

import "golang.org/x/sys/unix"

// reportsAcked: the system reports what a peer has acknowledged.
const reportsAcked = true

// outq returns how many bytes of a TCP socket the peer has not acknowledged.
func outq(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NWRITE) }

// boundUnsent bounds the unsent bytes that the kernel buffers for a TCP socket to n.
func boundUnsent(fd, n int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n)
}
