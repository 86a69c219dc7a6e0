package gateway

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"allium/protocols/b3"
	"allium/protocols/capability"
)

// deadlineBytes is how much is written under one deadline.
const deadlineBytes = 1 << 20

// response is an answer in the making. Every write renews the connection's
// deadline, so that only a client that stands still is cut off.
type response struct {
	http.ResponseWriter
	rc http.ResponseController

	m        *metrics
	patience time.Duration // 0: without end
	minRate  int64         // bytes per second
	deadline time.Time     // of writes, as it was set last

	status int       // 0 until the header was sent
	first  time.Time // when
	bytes  int64     // of the body so far
	failed error     // of the connection
	root   b3.Root   // the address asked for, zero for none
	head   bool      // a body is announced and not sent

	origins []string // whose pages may read the answer; see allowOrigin
	origin  string   // whose page asks

	content body      // what content is written to
	values  [5]string // of headers
	valued  int       // of values

	grant capability.Grant // what the request's capability leaves it
	body  *requestBody     // of the request, once a handler began to read it
	left  bool             // the request's body, and net/http will not wait for its rest
	from  origin           // who asks
	conn  *conn            // whose writes can be joined, else nil
	share *clientShare     // the client's place in flight
	corr  string           // X-Corr-ID

	recorded uint64 // number of the mutation in the audit log
	told     error  // that the client was told of in the body
}

func (s *side) newResponse(w http.ResponseWriter) *response {
	rw := &response{
		ResponseWriter: w, rc: *http.NewResponseController(w), m: s.g.m,
		patience: s.g.cfg.WriteTimeout, minRate: int64(s.g.cfg.MinRate),
	}
	if s.patient {
		rw.patience = 0
	}
	return rw
}

// Unwrap lets http.ResponseController find the connection.
func (w *response) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// value is a header's value, without an allocation for the first few.
func (w *response) value(s string) []string {
	if w.valued == len(w.values) {
		return []string{s}
	}
	w.values[w.valued] = s
	w.valued++
	return w.values[w.valued-1 : w.valued : w.valued]
}

// arm gives the next n bytes their deadline. Each one set gives an eighth more
// patience than it has to, so that not every write has to set one.
func (w *response) arm(n int) {
	if w.patience == 0 {
		return
	}
	need := time.Now().Add(w.patience + w.timeFor(n))
	if need.Before(w.deadline) {
		return
	}
	w.deadline = need.Add(w.patience / 8)
	_ = w.rc.SetWriteDeadline(w.deadline) // what cannot have one does without
}

// timeFor is how long n bytes take at min_rate.
func (w *response) timeFor(n int) time.Duration {
	return time.Duration(float64(n) / float64(w.minRate) * float64(time.Second))
}

// fail notes that the connection does not take the answer.
func (w *response) fail(err error) {
	if w.failed == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		w.m.timeouts.WithLabelValues("write").Inc()
	}
	w.failed = err
}

// started reports whether the header was sent.
func (w *response) started() bool { return w.status != 0 }

// short reports whether less was sent than Content-Length promised.
func (w *response) short() bool {
	n, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64)
	return err == nil && !w.head && w.bytes < n
}

// WriteHeader sends the header.
func (w *response) WriteHeader(code int) {
	if w.started() {
		return
	}
	w.status, w.first = code, time.Now()
	allowOrigin(w.Header(), w.origins, w.origin)
	w.arm(0)
	w.ResponseWriter.WriteHeader(code)
}

// Write sends p, at most deadlineBytes under one deadline.
func (w *response) Write(p []byte) (n int, err error) {
	w.WriteHeader(http.StatusOK)
	for len(p) > 0 && err == nil {
		var part int
		part = min(len(p), deadlineBytes)
		w.arm(part)
		part, err = w.ResponseWriter.Write(p[:part])
		n += part
		p = p[part:]
	}
	w.bytes += int64(n)
	if err != nil {
		w.fail(err)
	}
	return n, err
}

// Flush sends what is buffered.
func (w *response) Flush() error {
	w.arm(0)
	err := w.rc.Flush()
	if err != nil {
		w.fail(err)
	}
	return err
}

// send answers with a whole body, which HEAD asks for without wanting it.
func (w *response) send(r *http.Request, code int, contentType string, body []byte) error {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if w.head = r.Method == http.MethodHead; w.head {
		w.WriteHeader(code)
		return nil
	}
	w.whole(len(body))
	w.WriteHeader(code)
	_, err := w.Write(body)
	return err
}
