//go:build !linux && !darwin

package sockets

import (
	"errors"
	"net"
)

// peerUID returns ErrUnsupported, because this system does not report the user.
func peerUID(*net.UnixConn) (int, error) { return 0, errors.ErrUnsupported }
