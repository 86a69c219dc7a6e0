package conns

import (
	"bytes"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// HeaderWriter writes the headers of the answers on a connection of HTTP/1 without TLS, with the bytes that net/http
// would write. That copies and sorts the fields of each answer, and needs two system calls and two segments for the
// header and the first bytes of the body. So it is told only the length of the body. The header that it writes is
// replaced by the real one, which waits for the body if that is certain to follow.
//
// It belongs to the goroutine that serves the connection's requests.
type HeaderWriter struct {
	fields   http.Header    // of the answer
	names    []string       // of the fields of the last answer, sorted
	length   int            // of the body, as the header says
	part     int            // bytes of the body that net/http is given now
	pending  *pendingBuffer // the header, and what follows it; nil: it is sent, or net/http writes it
	replaces bool           // net/http has not written its header
	vec      [2][]byte      // pending and the next write, sent together
	send     net.Buffers    // the unsent rest of vec
}

// pendingBuffer holds the beginning of an answer.
type pendingBuffer struct{ b []byte }

var pendingPool = sync.Pool{New: func() any { return new(pendingBuffer) }}

// netHTTPBuffer is the size of net/http's buffer of a connection. It holds back no more of a body.
const netHTTPBuffer = 4 << 10

// The ends of lines and of a header, and the field whose value is replaced.
var (
	crlf          = []byte("\r\n")
	headerEnd     = []byte("\r\n\r\n")
	contentLength = []byte("Content-Length: ")
)

// errNetHTTPHeader reports a header of net/http that is not the one of the answer.
var errNetHTTPHeader = errors.New("net/http wrote an unexpected header")

// NewRequest forgets the answer before.
func (w *HeaderWriter) NewRequest() {
	if w.fields == nil {
		w.fields = http.Header{}
	}
	clear(w.fields)
	w.pending, w.send, w.part = nil, nil, 0
}

// Begin makes the header pending, and tells net/http what it needs to know. It returns false for an answer whose
// header net/http must write: it has no Content-Length, or fields that net/http acts on.
func (w *HeaderWriter) Begin(to http.ResponseWriter, code int) bool {
	empty := code == http.StatusNoContent || code == http.StatusNotModified
	length := w.fields["Content-Length"]
	switch {
	case code < http.StatusOK || http.StatusText(code) == "" || empty != (len(length) == 0):
		return false
	case empty == (len(w.fields["Content-Type"]) > 0): // net/http guesses a missing one
		return false
	case !empty:
		var err error
		if w.length, err = strconv.Atoi(length[0]); err != nil || len(length) > 1 {
			return false
		}
	}
	w.sortNames()
	w.pending, w.replaces = pendingPool.Get().(*pendingBuffer), true
	b := append(w.pending.b[:0], "HTTP/1.1 "...)
	b = append(append(strconv.AppendInt(b, int64(code), 10), ' '), http.StatusText(code)...)
	for _, name := range w.names {
		if actsOn(name) {
			w.free()
			return false
		}
		for _, value := range w.fields[name] {
			if strings.IndexByte(value, '\n') >= 0 || strings.IndexByte(value, '\r') >= 0 {
				w.free()
				return false
			}
			b = append(append(append(b, "\r\n"...), name...), ": "...)
			b = append(b, textproto.TrimString(value)...)
		}
	}
	w.pending.b = append(b, "\r\n"...)
	if !empty {
		h := to.Header()
		h["Content-Length"], h["Content-Type"] = length, nil
	}
	return true
}

// Fields returns the header of the answer, for the handler to fill.
func (w *HeaderWriter) Fields() http.Header { return w.fields }

// HeaderOf returns the header of the answer to r that is being sent to w, net/http's.
func HeaderOf(w http.ResponseWriter, r *http.Request) http.Header {
	if c := Of(r); c != nil && c.header.pending != nil {
		return c.header.fields
	}
	return w.Header()
}

// sortNames sets names. Most answers on a connection have the same fields as the one before.
func (w *HeaderWriter) sortNames() {
	same := len(w.names) == len(w.fields)
	for i := 0; same && i < len(w.names); i++ {
		_, same = w.fields[w.names[i]]
	}
	if !same {
		w.names = slices.AppendSeq(w.names[:0], maps.Keys(w.fields))
		slices.Sort(w.names)
	}
}

// actsOn reports whether net/http does more with a field than to write it.
func actsOn(name string) bool {
	switch name {
	case "Connection", "Date", "Trailer", "Transfer-Encoding":
		return true
	}
	return false
}

// free gives back the buffer of the pending header, which was sent, is left to net/http, or can no longer be sent.
func (w *HeaderWriter) free() {
	pendingPool.Put(w.pending)
	w.pending, w.send = nil, nil
}

// Announce says how many bytes of the body net/http is given now. A nil w does nothing.
func (w *HeaderWriter) Announce(part int) {
	if w != nil {
		w.part = part
	}
}

// take adds p, net/http's header and what follows it, to the pending header, which has the status line and the length
// already. It reports whether all waits for the next write, which is certain to follow.
func (w *HeaderWriter) take(p []byte) (waits bool, err error) {
	w.replaces = false
	line, end := bytes.Index(p, crlf), bytes.Index(p, headerEnd)
	if line < 0 || end < 0 || !bytes.HasPrefix(w.pending.b, p[:line+len(crlf)]) {
		return false, errNetHTTPHeader
	}
	own, rest := p[line+len(crlf):end+len(crlf)], p[end+len(crlf):]
	before, length, _ := bytes.Cut(own, contentLength)
	_, after, _ := bytes.Cut(length, crlf)
	w.pending.b = append(append(append(w.pending.b, before...), after...), rest...)
	left := w.part - len(rest) + len(crlf)
	return left > 0 && (w.part == w.length || left > netHTTPBuffer), nil
}

// sendRest sends the rest of vec. n is how much of its second part was sent, and sent how much of both.
func (w *HeaderWriter) sendRest(to net.Conn) (n int, sent int64, err error) {
	before := w.left()
	sent, err = w.send.WriteTo(to)
	n = before - w.left()
	if len(w.send) < 2 || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		w.free()
	}
	return n, sent, err
}

// left returns how much of the second part of vec is not sent.
func (w *HeaderWriter) left() int {
	if len(w.send) == 0 {
		return 0
	}
	return len(w.send[len(w.send)-1])
}

// send sends what is pending, and p, unless that waits for the next write. After a deadline it is called with the rest
// of p.
func (c *Conn) send(p []byte) (n int, err error) {
	w, taken := &c.header, 0
	if w.pending == nil {
		n, err = c.Conn.Write(p)
		c.progress.written.Add(int64(n))
		return n, err
	}
	if w.replaces {
		if waits, err := w.take(p); waits || err != nil {
			return len(p), err
		}
		taken, p = len(p), nil
	}
	if len(w.send) == 0 {
		w.vec = [2][]byte{w.pending.b, p}
		w.send = w.vec[:]
	}
	n, sent, err := w.sendRest(c.Conn)
	c.progress.written.Add(sent)
	return taken + n, err
}
