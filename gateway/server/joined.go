package server

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
)

// joined makes one write of the first two of an answer. net/http hands an answer
// over whenever its buffer is full, so that the header and a small object's
// bytes, or a chunk group's, are two system calls and two segments.
//
// It belongs to the one goroutine that writes to the connection.
type joined struct {
	body int64       // bytes of body of the answer that begins, 0: nothing is joined
	held *heldBytes  // written and not yet sent
	vec  [2][]byte   // what is sent together
	send net.Buffers // of vec
}

// heldBytes is a full buffer of net/http's, copied, as it is used again.
type heldBytes struct {
	n int
	b [4 << 10]byte
}

var heldPool = sync.Pool{New: func() any { return new(heldBytes) }}

// headerEnd is between an answer's header and its body.
var headerEnd = []byte("\r\n\r\n")

// hold keeps p until the next write and reports true if p is the beginning of
// the answer and that write is certain to come.
func (j *joined) hold(p []byte) bool {
	body := j.body
	j.body = 0
	if body == 0 || len(p) > len(heldBytes{}.b) {
		return false
	}
	header := bytes.Index(p, headerEnd)
	if header < 0 || int64(header+len(headerEnd))+body <= int64(len(p)) {
		return false
	}
	j.held = heldPool.Get().(*heldBytes)
	j.held.n = copy(j.held.b[:], p)
	return true
}

// write sends what is held and p; it returns how much of p was sent, and sent is
// how much of both. What a deadline kept from being sent is sent by resume.
func (j *joined) write(to net.Conn, p []byte) (n int, sent int64, err error) {
	j.vec = [2][]byte{j.held.b[:j.held.n], p}
	j.send = j.vec[:]
	return j.resume(to)
}

// resume sends what is left; see write.
func (j *joined) resume(to net.Conn) (n int, sent int64, err error) {
	before := j.left()
	sent, err = j.send.WriteTo(to)
	if len(j.send) < 2 || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		heldPool.Put(j.held) // nothing of it is left to be sent
		j.held = nil
	}
	return before - j.left(), sent, err
}

// left returns how much of what was given to write is not sent.
func (j *joined) left() int {
	if len(j.send) == 0 {
		return 0
	}
	return len(j.send[len(j.send)-1])
}

// send is one try of Write.
func (c *conn) send(p []byte) (n int, err error) {
	switch {
	case c.joined.held != nil:
		var sent int64
		n, sent, err = c.joined.write(c.Conn, p)
		c.pace.written.Add(sent)
		return n, err
	case c.joined.hold(p):
		return len(p), nil
	}
	n, err = c.Conn.Write(p)
	c.pace.written.Add(int64(n))
	return n, err
}

// resume is another try, of the rest.
func (c *conn) resume(p []byte) (n int, err error) {
	if c.joined.held != nil { // some of that was not sent
		var sent int64
		n, sent, err = c.joined.resume(c.Conn)
		c.pace.written.Add(sent)
		return n, err
	}
	n, err = c.Conn.Write(p)
	c.pace.written.Add(int64(n))
	return n, err
}

// joins is the connection if writes of its answers can be joined: of HTTP/2 and
// TLS others write to it.
func (c *conn) joins(r *http.Request) *conn {
	if r.ProtoMajor != 1 || r.TLS != nil {
		return nil
	}
	return c
}
