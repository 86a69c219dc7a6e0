package exchange

import (
	"net/http"
	"os"
	"time"
)

// plain is a Transport without bounds.
type plain struct{ http.ResponseWriter }

func (p plain) Unwrap() http.ResponseWriter { return p.ResponseWriter }
func (p plain) Flush() error                { return http.NewResponseController(p.ResponseWriter).Flush() }
func (p plain) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(p.ResponseWriter).SetWriteDeadline(at)
}
func (plain) StartTransfer(int) error { return nil }
func (plain) ReleaseAdmission()       {}
func (plain) EvictFetched()           {}
func (plain) ReadTimedOut()           {}
func (plain) PassedFile() *os.File    { return nil }
func (plain) User() string            { return "" }

// newPlain returns an answer that w gets.
func newPlain(w http.ResponseWriter) *Response {
	r := &Response{}
	r.Begin(plain{w})
	return r
}
