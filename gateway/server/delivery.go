package server

import (
	"errors"
	"net/http"
	"os"
	"time"

	"allium/gateway/exchange"
	"allium/internal/limits"
)

// delivery sends an answer over the connection that its request came on, and
// counts it. Every write renews the connection's deadline, so that only a client
// that stands still is cut off; on a TCP connection that judges its client by
// what it acknowledges, see pace. It is the transport of its response.
type delivery struct {
	exchange.Response
	out http.ResponseWriter // net/http's
	rc  http.ResponseController
	r   *http.Request

	m        *metrics
	patience time.Duration // 0: without end
	minRate  int64         // bytes per second
	deadline time.Time     // of writes, as it was set last
	evicted  bool          // it made room for another
	paced    bool          // the connection judges its client itself

	origins []string // whose pages may read the answer; see allowOrigin
	asking  string   // whose page asks

	conn      *conn        // whose writes can be joined, else nil
	peer      *conn        // that the request came on, nil where there is none that is judged
	stream    *streamWatch // of an answer over HTTP/2, else nil
	transfers *transfers   // nil: the answer is not counted among them
	listings  *transfers   // the same of listings
	transfer  transfer
	place     *limits.Gate // of which the request has a place: while it is decided, or to its end; nil: of none
	share     *clientShare // the client's place in flight
}

func (l *listener) newDelivery(out http.ResponseWriter, r *http.Request) *delivery {
	d := &delivery{
		out: out, rc: *http.NewResponseController(out), r: r, m: l.server.metrics,
		patience: l.server.cfg.WriteTimeout, minRate: int64(l.server.cfg.MinRate),
	}
	if l.patient {
		d.patience = 0
	}
	d.Response.Begin(transportOf{d})
	d.Response.Patient, d.Response.Capabilities, d.Response.Audit = l.patient, l.server.deps.Capabilities, l.server.deps.Audit
	return d
}

// transportOf is the delivery below its response, whose methods have the same names.
type transportOf struct{ d *delivery }

// Header implements Transport.
func (t transportOf) Header() http.Header { return t.d.out.Header() }

// Unwrap lets http.ResponseController find the connection.
func (t transportOf) Unwrap() http.ResponseWriter { return t.d.out }

// WriteHeader implements Transport.
func (t transportOf) WriteHeader(code int) {
	allowOrigin(t.d.out.Header(), t.d.origins, t.d.asking)
	t.d.arm(0)
	t.d.out.WriteHeader(code)
}

// Write sends p, at most deadlineBytes under one deadline.
func (t transportOf) Write(p []byte) (n int, err error) {
	d := t.d
	for len(p) > 0 && err == nil {
		var part int
		part = min(len(p), exchange.DeadlineBytes)
		d.arm(part)
		d.stream.begin(part)
		part, err = d.out.Write(p[:part])
		d.stream.end()
		n += part
		p = p[part:]
	}
	d.transfer.bytes.Add(int64(n))
	d.wrote(err)
	return n, err
}

// Flush sends what is buffered.
func (t transportOf) Flush() error {
	t.d.arm(0)
	t.d.stream.begin(0)
	err := t.d.rc.Flush()
	t.d.stream.end()
	t.d.wrote(err)
	return err
}

// SetWriteDeadline implements Transport.
func (t transportOf) SetWriteDeadline(at time.Time) error {
	t.d.deadline = at
	return t.d.rc.SetWriteDeadline(at)
}

// Whole implements Transport.
func (t transportOf) Whole(n int) {
	if t.d.conn != nil {
		t.d.conn.joined.body = int64(n)
	}
}

// ReadTimedOut implements Transport.
func (t transportOf) ReadTimedOut() { t.d.m.timeouts.WithLabelValues("read").Inc() }

// User implements Transport.
func (t transportOf) User() string { return userOf(t.d.r) }

// wrote counts the first write that failed, if its deadline was why.
func (d *delivery) wrote(err error) {
	if err != nil && d.Failed == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		d.m.timeouts.WithLabelValues("write").Inc()
	}
}

// arm gives the next n bytes their deadline. Each one set gives an eighth more
// patience than it has to, so that not every write has to set one.
func (d *delivery) arm(n int) {
	if d.patience == 0 || d.stream != nil {
		return
	}
	need := time.Now().Add(d.patience)
	if !d.paced {
		need = need.Add(paceLimits{d.patience, d.minRate}.timeFor(int64(n)))
	}
	if need.Before(d.deadline) {
		return
	}
	d.deadline = need.Add(d.patience / 8)
	_ = d.rc.SetWriteDeadline(d.deadline) // what cannot have one does without
}

// judged lets the answer's client be judged by its connection.
func (d *delivery) judged(c *conn) {
	if c == nil || !c.pace.on || d.patience == 0 {
		return
	}
	d.peer, d.paced = c, true
	if d.r.ProtoMajor == 2 {
		d.watchStream(c)
	}
}

// Underway counts an answer as a transfer from when its body no longer fits into
// buffers: then n more bytes are to be written. It gives back the place that
// the request had while it was decided.
func (t transportOf) Underway(n int) error {
	d := t.d
	if d.transfers == nil || d.transfer.begun || d.Bytes+int64(n) <= inBuffers {
		return nil
	}
	if d.Listing {
		d.transfers = d.listings
	}
	one := &d.transfer
	one.group, one.conn, one.stream, one.began = d.From.Group, d.peer, d.stream, time.Now()
	if one.conn != nil {
		one.base = one.conn.pace.written.Load()
	}
	if err := d.transfers.begin(one); err != nil {
		return err
	}
	one.begun = true
	d.share.Leave()
	t.Undecided()
	return nil
}

// Undecided gives back the place that the request had while it was decided. What
// asks the network for content is counted by the fetches, and a body under way by
// the transfers. The client's own place stays until there is a body.
func (t transportOf) Undecided() {
	if t.d.transfers != nil {
		t.d.leavePlace()
	}
}

// leavePlace gives back the place that the request has, if it has one.
func (d *delivery) leavePlace() {
	if d.place != nil {
		d.place.Leave()
		d.place = nil
	}
}
