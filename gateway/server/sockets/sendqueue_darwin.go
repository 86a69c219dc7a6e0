package sockets

import "golang.org/x/sys/unix"

// ReportsAcked says that the system reports what a peer has acknowledged.
const ReportsAcked = true

// Unacked returns how many bytes of a TCP socket with this descriptor the peer has not acknowledged.
func Unacked(fd int) (int, error) { return unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NWRITE) }

// BoundUnsent bounds the unsent bytes that the kernel buffers for a TCP socket to n.
func BoundUnsent(fd, n int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n)
}
