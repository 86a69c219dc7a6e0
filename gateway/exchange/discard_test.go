package exchange

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// timedConn is a client that goes on sending for an hour, if it is let.
type timedConn struct {
	http.ResponseWriter
	deadline, end time.Time
}

func (c *timedConn) SetReadDeadline(t time.Time) error { c.deadline = t; return nil }

func (c *timedConn) Read(p []byte) (int, error) {
	time.Sleep(100 * time.Millisecond)
	switch now := time.Now(); {
	case !c.deadline.IsZero() && now.After(c.deadline):
		return 0, os.ErrDeadlineExceeded
	case now.After(c.end):
		return 0, io.EOF
	}
	return len(p), nil
}

// TestDiscardEnds: who goes on sending after it was told of an error is cut off,
// however fast it is, also where reads of its body set deadlines.
func TestDiscardEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, paced := range []bool{false, true} {
			begun := time.Now()
			c := &timedConn{ResponseWriter: httptest.NewRecorder(), end: begun.Add(time.Hour)}
			w := newPlain(c)
			r := httptest.NewRequest(http.MethodPost, "/api/v1/add", c)
			read := *r
			if paced {
				w.body = &Body{w: w, r: r, idleTimeout: 5 * time.Second, minRate: 1}
				read.Body = io.NopCloser(w.body)
			}
			w.Discard(&read)
			if took := time.Since(begun); took > discardTimeout+time.Second {
				t.Errorf("paced %t: it was read for %s", paced, took)
			}
		}
	})
}
