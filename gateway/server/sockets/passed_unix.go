//go:build unix

package sockets

import (
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// fileConn is a connection of the Unix socket on which the client may pass a file, with the
// first bytes of a request (SCM_RIGHTS). It holds at most one, and closes every other one.
type fileConn struct {
	*net.UnixConn

	mu     sync.Mutex // lock: leaf
	passed *os.File   // nil: none, or it was taken
	closed bool
}

// WithFiles lets the client of a Unix socket pass files, which TakeFile returns. It returns any other
// connection as it is.
func WithFiles(c net.Conn) net.Conn {
	if u, ok := c.(*net.UnixConn); ok {
		return &fileConn{UnixConn: u}
	}
	return c
}

// unixConn returns the connection of the Unix socket that c is.
func unixConn(c net.Conn) (*net.UnixConn, bool) {
	if d, ok := c.(*fileConn); ok {
		return d.UnixConn, true
	}
	u, ok := c.(*net.UnixConn)
	return u, ok
}

// Read implements net.Conn. It keeps the file that came with the bytes.
func (c *fileConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var control [controlBytes]byte // the kernel closes descriptors that do not fit
	n, m, _, _, err := c.ReadMsgUnix(p, control[:])
	if m > 0 {
		c.keep(control[:m])
	}
	return max(n, 0), err // recvmsg returns -1 with an error, such as a reset
}

// controlBytes is the space for control messages: some descriptors more than the one that is kept.
const controlBytes = 64

// keep keeps the first descriptor of control messages, unless there is one already.
func (c *fileConn) keep(control []byte) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			c.hold(os.NewFile(uintptr(fd), "the file that the client passed")) //nolint:gosec // a descriptor fits
		}
	}
}

func (c *fileConn) hold(f *os.File) {
	c.mu.Lock()
	keep := c.passed == nil && !c.closed
	if keep {
		c.passed = f
	}
	c.mu.Unlock()
	if !keep {
		_ = f.Close() // nothing was written
	}
}

// take returns the file that the client passed, or nil. The caller closes it.
func (c *fileConn) take() *os.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.passed
	c.passed = nil
	return f
}

// Close closes the connection, and the file if nobody took it.
func (c *fileConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	if f := c.take(); f != nil {
		_ = f.Close() // nothing was written
	}
	return c.UnixConn.Close()
}

// TakeFile returns the file that the client of a connection of WithFiles passed with a request, or nil.
// The caller closes it.
func TakeFile(c net.Conn) *os.File {
	if d, ok := c.(*fileConn); ok {
		return d.take()
	}
	return nil
}
