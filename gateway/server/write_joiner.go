package server

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
)

// writeJoiner joins the first two writes of an answer into one. net/http writes whenever its
// buffer is full, so the header and the first bytes of the body would be two system calls and
// two segments.
//
// It belongs to the goroutine that writes to the connection.
type writeJoiner struct {
	body    int64          // bytes of the body that the next answer announced; 0: join nothing
	pending *pendingBuffer // the first write, not sent yet
	vec     [2][]byte      // the two writes, sent together
	send    net.Buffers    // the unsent rest of vec
}

// pendingBuffer is a copy of net/http's buffer, which net/http reuses.
type pendingBuffer struct {
	n int
	b [4 << 10]byte
}

var pendingPool = sync.Pool{New: func() any { return new(pendingBuffer) }}

// headerEnd ends an answer's header.
var headerEnd = []byte("\r\n\r\n")

// buffer copies p until the next write and returns true, if p begins an answer and another write
// is certain to follow.
func (j *writeJoiner) buffer(p []byte) bool {
	body := j.body
	j.body = 0
	if body == 0 || len(p) > len(pendingBuffer{}.b) {
		return false
	}
	header := bytes.Index(p, headerEnd)
	if header < 0 || int64(header+len(headerEnd))+body <= int64(len(p)) {
		return false
	}
	j.pending = pendingPool.Get().(*pendingBuffer)
	j.pending.n = copy(j.pending.b[:], p)
	return true
}

// write sends the pending write and p. n is how much of p was sent, and sent how much of both.
// After a deadline, resume sends the rest.
func (j *writeJoiner) write(to net.Conn, p []byte) (n int, sent int64, err error) {
	j.vec = [2][]byte{j.pending.b[:j.pending.n], p}
	j.send = j.vec[:]
	return j.resume(to)
}

// resume sends the rest of write.
func (j *writeJoiner) resume(to net.Conn) (n int, sent int64, err error) {
	before := j.left()
	sent, err = j.send.WriteTo(to)
	if len(j.send) < 2 || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		pendingPool.Put(j.pending) // it is sent, or never will be
		j.pending = nil
	}
	return before - j.left(), sent, err
}

// left returns how much of write's p is not sent.
func (j *writeJoiner) left() int {
	if len(j.send) == 0 {
		return 0
	}
	return len(j.send[len(j.send)-1])
}

// send is the first attempt of Write.
func (c *conn) send(p []byte) (n int, err error) {
	switch {
	case c.joiner.pending != nil:
		var sent int64
		n, sent, err = c.joiner.write(c.Conn, p)
		c.progress.written.Add(sent)
		return n, err
	case c.joiner.buffer(p):
		return len(p), nil
	}
	n, err = c.Conn.Write(p)
	c.progress.written.Add(int64(n))
	return n, err
}

// resume is a later attempt of Write, with the rest.
func (c *conn) resume(p []byte) (n int, err error) {
	if c.joiner.pending != nil { // it is not sent completely
		var sent int64
		n, sent, err = c.joiner.resume(c.Conn)
		c.progress.written.Add(sent)
		return n, err
	}
	n, err = c.Conn.Write(p)
	c.progress.written.Add(int64(n))
	return n, err
}

// joinable returns c if the writes of its answers can be joined, else nil. With HTTP/2 and TLS,
// other code writes to the connection.
func (c *conn) joinable(r *http.Request) *conn {
	if r.ProtoMajor != 1 || r.TLS != nil {
		return nil
	}
	return c
}
