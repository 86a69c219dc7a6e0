package conns

import (
	"sync"
	"sync/atomic"
	"time"
)

// HalfClosed holds the HTTP/2 connections that net/http has closed while their clients may still read.
// A slow client's kernel may have acknowledged all of an answer that the client reads for minutes.
// The client sends window updates meanwhile. A closed connection would answer them with a reset, and
// many clients drop the answer then. So the connection only ends its writes, and what the client
// sends is thrown away until it closes too, says nothing for the stall time, or has sent maxDropped.
//
// Such a connection keeps its place in the limits and can be evicted as an idle one. The methods may
// be called from any goroutine.
type HalfClosed struct {
	over atomic.Bool // the server ends: nothing is waited for

	mu      sync.Mutex // lock: leaf
	conns   map[*Conn]struct{}
	readers sync.WaitGroup
}

// NewHalfClosed returns an empty HalfClosed.
func NewHalfClosed() *HalfClosed { return &HalfClosed{conns: map[*Conn]struct{}{}} }

// add takes a connection over, and closes it later. It returns false if the caller must close it.
func (h *HalfClosed) add(c *Conn) bool {
	if h.over.Load() || c.CloseWrite() != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over.Load() { // End may wait for the readers already
		return false
	}
	h.conns[c] = struct{}{}
	h.readers.Go(func() { h.readToEnd(c) })
	return true
}

// maxDropped bounds what a client may send on a connection that has ended: window updates of 13 bytes for
// every few KiB that it still reads.
const maxDropped = 1 << 20

// readToEnd reads c until it ends, and closes it.
func (h *HalfClosed) readToEnd(c *Conn) {
	var dropped [512]byte
	all := 0
	for err := error(nil); err == nil && all < maxDropped; {
		err = c.Conn.SetReadDeadline(time.Now().Add(c.progress.stall))
		if h.over.Load() { // End may have set its deadline before this one
			break
		}
		if err == nil {
			var n int
			n, err = c.Conn.Read(dropped[:])
			all += n
		}
	}
	h.mu.Lock()
	delete(h.conns, c)
	h.mu.Unlock()
	_ = c.close() // nobody waits for the connection
}

// End closes the connections and waits for their readers.
func (h *HalfClosed) End() {
	h.over.Store(true)
	h.mu.Lock()
	for c := range h.conns {
		_ = c.Conn.SetReadDeadline(pastDeadline)
	}
	h.mu.Unlock()
	h.readers.Wait()
}
