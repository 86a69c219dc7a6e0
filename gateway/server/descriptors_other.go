//go:build !unix

package server

import (
	"net"
	"os"
)

// withDescriptors returns c: clients cannot pass files.
func withDescriptors(c net.Conn) net.Conn { return c }

// unixConn returns the connection of the Unix socket that c is.
func unixConn(c net.Conn) (*net.UnixConn, bool) {
	u, ok := c.(*net.UnixConn)
	return u, ok
}

// passedFile returns nil: clients cannot pass files.
func (c *conn) passedFile() *os.File { return nil }
