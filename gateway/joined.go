package gateway

import (
	"bytes"
	"net"
	"net/http"
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

// write sends what is held and p; it returns how much of p was sent.
func (j *joined) write(to net.Conn, p []byte) (int, error) {
	held := j.held
	j.held = nil
	j.vec = [2][]byte{held.b[:held.n], p}
	j.send = j.vec[:]
	n, err := j.send.WriteTo(to)
	n -= int64(held.n)
	heldPool.Put(held)
	return int(max(n, 0)), err
}

// Write sends p, or holds it until the next write; see whole.
func (c *conn) Write(p []byte) (int, error) {
	switch {
	case c.joined.held != nil:
		return c.joined.write(c.Conn, p)
	case c.joined.hold(p):
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// joins is the connection if writes of its answers can be joined: of HTTP/2 and
// TLS others write to it.
func (c *conn) joins(r *http.Request) *conn {
	if r.ProtoMajor != 1 || r.TLS != nil {
		return nil
	}
	return c
}

// whole tells that the answer's body is the next Write, of n bytes: what net/http
// sends of it first can wait for the rest.
func (w *response) whole(n int) {
	if w.conn != nil && !w.started() {
		w.conn.joined.body = int64(n)
	}
}
