package server

import "golang.org/x/sys/unix"

// tellsAcked: the system knows what a peer has acknowledged.
const tellsAcked = true

// outq returns how many bytes of a TCP socket the peer has not acknowledged.
func outq(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.SIOCOUTQ) }

// boundUnsent makes the kernel take no more of a TCP socket's bytes while n of
// them are not sent.
func boundUnsent(fd, n int) error {
	return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, n)
}
