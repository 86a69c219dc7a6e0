package conns

import (
	"net"
	"testing"
	"time"
)

// halfClosedConn calls closeWrite and read in place of system calls.
type halfClosedConn struct {
	net.Conn
	closeWrite func()
	read       func() (int, error)
}

func (c *halfClosedConn) CloseWrite() error               { c.closeWrite(); return nil }
func (c *halfClosedConn) Read([]byte) (int, error)        { return c.read() }
func (c *halfClosedConn) SetReadDeadline(time.Time) error { return nil }
func (c *halfClosedConn) Close() error                    { return nil }

// newHalfClosed returns a halfClosed and a connection for it.
func newHalfClosed(c *halfClosedConn) (*HalfClosed, *Conn) {
	h := &HalfClosed{conns: map[*Conn]struct{}{}}
	return h, &Conn{Conn: c, release: func() {}, halfClosed: h}
}

func TestHalfClosedEndsWritesWithoutLock(t *testing.T) {
	fake := &halfClosedConn{read: func() (int, error) { return 0, net.ErrClosed }}
	h, c := newHalfClosed(fake)
	free := false
	fake.closeWrite = func() {
		if free = h.mu.TryLock(); free {
			h.mu.Unlock()
		}
	}
	if !h.add(c) {
		t.Error("add refused the connection")
	}
	h.End()
	if !free {
		t.Error("add holds its lock while it ends the writes of a connection")
	}
}

func TestHalfClosedRefusesAfterEnd(t *testing.T) {
	fake := &halfClosedConn{read: func() (int, error) { return 0, net.ErrClosed }}
	h, c := newHalfClosed(fake)
	fake.closeWrite = h.End // the server ends while add ends the writes
	if h.add(c) || len(h.conns) != 0 {
		t.Error("add took a connection that end does not wait for")
	}
}

func TestHalfClosedReaderEndsWithServer(t *testing.T) {
	reads := 0
	fake := &halfClosedConn{closeWrite: func() {}}
	h, c := newHalfClosed(fake)
	fake.read = func() (int, error) {
		if reads++; reads > 1 {
			return 0, net.ErrClosed
		}
		h.over.Store(true) // as end does before it sets the deadline, which the reader then replaces
		return 1, nil
	}
	if !h.add(c) {
		t.Error("add refused the connection")
	}
	h.readers.Wait()
	if reads != 1 {
		t.Errorf("%d reads; the last began after the server ended", reads)
	}
}

// TestHalfClosedIsBounded: a client that goes on sending is closed.
func TestHalfClosedIsBounded(t *testing.T) {
	sent := 0
	fake := &halfClosedConn{closeWrite: func() {}, read: func() (int, error) {
		if sent += 512; sent > 2*maxDropped {
			return 0, net.ErrClosed
		}
		return 512, nil
	}}
	h, c := newHalfClosed(fake)
	if !h.add(c) {
		t.Error("add refused the connection")
	}
	h.readers.Wait()
	if sent != maxDropped {
		t.Errorf("%d bytes were read, want %d", sent, maxDropped)
	}
}
