package server

import (
	"errors"
	"maps"
	"net/http"
	"os"
	"time"

	"allium/gateway/exchange"
	"allium/gateway/server/conns"
	"allium/gateway/server/sockets"
	"allium/internal/env"
	"allium/internal/limits"
)

// bufferedBytes is the number of bytes of a body that net/http buffers until the handler returns.
// Writing them never waits for the client.
const bufferedBytes = 2 << 10

// delivery sends an answer over the connection of its request, and counts it. Every write
// renews the write deadline, so that only a client that takes nothing is cut off. On a TCP
// connection, the transfer measures instead what the client acknowledges. A delivery is the
// transport of its Response and belongs to the handler's goroutine.
type delivery struct {
	exchange.Response
	out http.ResponseWriter // net/http's
	rc  http.ResponseController
	r   *http.Request

	metrics *metrics
	upload  *limits.Bandwidth   // nil: no bound
	header  *conns.HeaderWriter // writes the header; nil: net/http does
	writing writing
	asked   asked
	places  places
	cost    cost
}

// writing bounds the writes of an answer.
type writing struct {
	timeout  time.Duration // the longest time in which the client takes nothing; 0: no bound
	deadline time.Time     // the write deadline that was set last
}

// asked holds what a request says about itself that its answer depends on.
type asked struct {
	prefix  bool     // the prefix of the paths
	origins []string // origins whose pages may read the answer; see exchange.AllowOrigin
	origin  string   // the origin of the page that made the request
}

// places are the places in the limits that a request and its answer hold.
type places struct {
	gate      *limits.Gate     // where the request holds a place; nil: nowhere
	share     *clientShare     // the client's place in flight, and its share of the rate
	transfers *conns.Transfers // counts the answer; nil: the answer is not counted
	listings  *conns.Transfers // counts the answer if it is a listing
	transfer  conns.Transfer
	evicted   bool // the transfer was evicted for another
}

// leaveGate frees the request's place in its gate, if it has one.
func (p *places) leaveGate() {
	if p.gate != nil {
		p.gate.Leave()
		p.gate = nil
	}
}

// newDelivery returns a delivery. A reader of events that stands still is cut off soon, on the socket
// too, whose other answers have no write deadline: it would keep its place in their gate.
func (l *listener) newDelivery(rt route, out http.ResponseWriter, r *http.Request) *delivery {
	d := &delivery{
		out: out, rc: *http.NewResponseController(out), r: r, metrics: l.server.metrics, upload: l.server.deps.Upload,
		writing: writing{timeout: l.server.cfg.StallTimeout},
	}
	switch {
	case rt.events:
		d.writing.timeout = l.server.cfg.WriteTimeout
	case l.noTimeouts:
		d.writing.timeout = 0
	}
	d.Response.Begin(transportOf{d})
	d.NoReadTimeout = l.noTimeouts
	if c := conns.Of(r); c != nil && r.ProtoMajor == 1 && r.ProtoMinor == 1 && r.TLS == nil {
		d.header = c.Header() // with TLS and HTTP/2, other code writes to the connection
		d.header.NewRequest()
	}
	d.Capabilities, d.Audit = l.server.deps.Capabilities, l.server.deps.Audit
	return d
}

// transportOf implements Transport for a delivery. It is a separate type, because the embedded Response has methods of
// the same names.
type transportOf struct{ d *delivery }

// Header implements Transport.
func (t transportOf) Header() http.Header {
	if t.d.header != nil {
		return t.d.header.Fields()
	}
	return t.d.out.Header()
}

// Unwrap lets http.ResponseController find the connection.
func (t transportOf) Unwrap() http.ResponseWriter { return t.d.out }

// WriteHeader implements Transport.
func (t transportOf) WriteHeader(code int) {
	h := t.Header()
	if !exchange.OriginDecided(h) {
		exchange.AllowOrigin(h, t.d.asked.origins, t.d.asked.origin)
	}
	if t.d.asked.prefix {
		h.Add("Vary", forwardedPrefix)
	}
	t.d.renewDeadline()
	if t.d.header != nil && !t.d.header.Begin(t.d.out, code) {
		t.d.passHeader()
	}
	t.d.out.WriteHeader(code)
}

// passHeader lets net/http write the header.
func (d *delivery) passHeader() {
	if d.header != nil {
		maps.Copy(d.out.Header(), d.header.Fields())
		d.header = nil
	}
}

// Write sends p. It renews the deadline after every DeadlineBytes.
func (t transportOf) Write(p []byte) (n int, err error) {
	d := t.d
	begun := time.Now()
	defer func() { d.cost.writing += time.Since(begun) }()
	for len(p) > 0 && err == nil {
		part := d.places.transfer.Piece(min(len(p), exchange.DeadlineBytes))
		if part, err = d.limitRate(part); err != nil {
			return n, err
		}
		d.renewDeadline()
		d.places.transfer.BeginWrite()
		d.header.Announce(part)
		part, err = d.out.Write(p[:part])
		d.header.Announce(0)
		d.places.transfer.EndWrite(part)
		n += part
		p = p[part:]
	}
	d.countTimeout(err)
	return n, err
}

// limitRate waits until the upload rate lets content be sent, and returns the number of bytes, at most part. The wait
// does not count as the client's. Only content of objects waits, and not over the Unix socket.
func (d *delivery) limitRate(part int) (int, error) {
	near := d.From.Near()
	content := !d.Root.IsZero() || d.Caching != "" // an object that still arrives has no address
	if !content || !d.From.Addr.IsValid() || !d.upload.Bounds(near) {
		return part, nil
	}
	part = min(part, exchange.BandwidthBytes)
	return part, d.upload.Wait(d.r.Context(), d.From.BandwidthKey(), near, part, rateWait)
}

// rateWait is the longest wait for the upload rate: the request has its own end.
const rateWait = time.Hour

// Flush sends what is buffered.
func (t transportOf) Flush() error {
	t.d.renewDeadline()
	t.d.places.transfer.BeginWrite()
	err := t.d.rc.Flush()
	t.d.places.transfer.EndWrite(0)
	t.d.countTimeout(err)
	return err
}

// SetWriteDeadline implements Transport.
func (t transportOf) SetWriteDeadline(at time.Time) error {
	t.d.writing.deadline = at
	return t.d.rc.SetWriteDeadline(at)
}

// ReadTimedOut implements Transport.
func (t transportOf) ReadTimedOut() {
	t.d.metrics.timeouts.WithLabelValues(env.TimeoutGatewayRead).Inc()
}

// PassedFile implements Transport.
func (t transportOf) PassedFile() *os.File {
	if c := conns.Of(t.d.r); c != nil {
		return sockets.TakeFile(c.Conn)
	}
	return nil
}

// User implements Transport.
func (t transportOf) User() string { return userOf(t.d.r) }

// countTimeout counts the first write that failed because of its deadline.
func (d *delivery) countTimeout(err error) {
	if err != nil && d.Failed == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		d.metrics.writeTimedOut()
	}
}

// renewDeadline sets the deadline of the next write, if the current one is too early. It sets it
// an eighth later than needed, so that not every write sets one. A connection that measures
// progress renews its deadline itself.
func (d *delivery) renewDeadline() {
	if d.writing.timeout == 0 || d.places.transfer.Arm() {
		return
	}
	need := time.Now().Add(d.writing.timeout)
	if need.Before(d.writing.deadline) {
		return
	}
	d.writing.deadline = need.Add(d.writing.timeout / 8)
	_ = d.rc.SetWriteDeadline(d.writing.deadline) // test recorders have no deadlines
}

// watch has a client cut off that takes nothing of the answer, if there is a bound.
func (d *delivery) watch() {
	if d.writing.timeout > 0 {
		d.places.transfer.Watch(d.r, conns.Answer{
			RC: &d.rc, Stall: d.writing.timeout, OnStall: d.metrics.writeTimedOut,
		})
	}
}

// StartTransfer implements Transport. It counts the answer as a transfer if n more bytes exceed
// the buffers, and then frees the request's place in its gate.
func (t transportOf) StartTransfer(n int) error {
	d := t.d
	if d.places.transfers == nil || d.places.transfer.Counted() || d.Bytes+int64(n) <= bufferedBytes {
		return nil
	}
	if d.Listing {
		d.places.transfers = d.places.listings
	}
	if err := d.places.transfer.Start(d.places.transfers, d.From.Group, d.Fetching > 0); err != nil {
		return err
	}
	d.places.share.Leave()
	d.places.leaveGate()
	return nil
}

// ReleaseAdmission implements Transport. From here on, the fetch gate counts a request that
// asks the network, and transfers count a body being sent. The client's own place in flight
// stays until the transfer starts.
func (t transportOf) ReleaseAdmission() {
	t.d.cost.askedNetwork = true
	if t.d.places.transfers != nil {
		t.d.places.leaveGate()
	}
}

// EvictFetched implements Transport.
func (t transportOf) EvictFetched() {
	if t.d.places.transfers != nil {
		t.d.places.transfers.EvictFetched(t.d.From.Group)
	}
}
