package sockets

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user that connected, as the kernel noted it (LOCAL_PEERCRED).
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Xucred
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptXucred(int(fd), unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
	})
	if err == nil {
		err = sockErr
	}
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}
