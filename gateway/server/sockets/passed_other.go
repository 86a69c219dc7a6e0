//go:build !unix

package sockets

import (
	"net"
	"os"
)

// WithFiles returns c: clients cannot pass files.
func WithFiles(c net.Conn) net.Conn { return c }

// unixConn returns the connection of the Unix socket that c is.
func unixConn(c net.Conn) (*net.UnixConn, bool) {
	u, ok := c.(*net.UnixConn)
	return u, ok
}

// TakeFile returns nil: clients cannot pass files.
func TakeFile(net.Conn) *os.File { return nil }
