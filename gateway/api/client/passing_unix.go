//go:build unix

package client

import (
	"context"
	"net"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// passTo returns a copy of c that passes the open file f to the node with each request, each over a new connection. It
// returns nil for a node that is not reached over its Unix socket.
func passTo(c *Client, f *os.File) *Client {
	if c.socket == "" {
		return nil
	}
	tr := c.tr.Clone()
	tr.DisableKeepAlives = true
	dial := tr.DialContext
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &passingConn{UnixConn: conn.(*net.UnixConn), file: f}, nil
	}
	passing := *c
	passing.http = &http.Client{Transport: tr, CheckRedirect: refuseRedirect}
	return &passing
}

// passingConn passes a file with its first bytes.
type passingConn struct {
	*net.UnixConn
	file *os.File
	once sync.Once
}

// Write implements net.Conn.
func (c *passingConn) Write(p []byte) (n int, err error) {
	if len(p) > 0 {
		c.once.Do(func() { n, err = c.pass(p) })
	}
	if err != nil || n == len(p) {
		return n, err
	}
	more, err := c.UnixConn.Write(p[n:])
	return n + more, err
}

// pass sends p, or the beginning of it, with the file.
func (c *passingConn) pass(p []byte) (n int, err error) {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	var sendErr error
	if err := raw.Control(func(fd uintptr) {
		n, _, sendErr = c.WriteMsgUnix(p, unix.UnixRights(int(fd)), nil) //nolint:gosec // a descriptor fits
	}); err != nil {
		return 0, err
	}
	return n, sendErr
}
