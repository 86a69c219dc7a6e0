package server

import (
	"io"
	"net/http"
	"time"
)

// leaveStreamFor bounds what is still read of a body that is left on HTTP/2;
// net/http waits as long before it resets a connection.
const leaveStreamFor = 500 * time.Millisecond

// linger keeps what is still on its way of a body that is left from destroying
// the answer. Where the client's header said that this is the last request of
// its connection, net/http closes at once, and the reset that answers the rest
// can overtake the answer (RFC 9112 §9.6): it is read on for leaveFor. A stream of
// HTTP/2 is reset as soon as its handler returns, and there are clients, curl
// among them, that throw away what they have not looked at by then. After an
// answer that makes them stop it stays open until the body has ended, or for
// leaveStreamFor.
func (s *Server) linger(w *delivery, r *http.Request) {
	switch {
	case !w.Left || w.rc.Flush() != nil:
	case r.ProtoMajor < 2:
		_, _ = io.Copy(io.Discard, r.Body) // until it stops, one way or the other
	case w.Status >= http.StatusMultipleChoices: // after others they would not stop
		s.lingerStream(w, r)
	}
}

func (s *Server) lingerStream(w *delivery, r *http.Request) {
	release, err := s.bounds.lingers.TryAcquire()
	if err != nil {
		return
	}
	defer release()
	over := time.NewTimer(leaveStreamFor)
	defer over.Stop()
	_ = w.rc.SetReadDeadline(time.Now().Add(leaveStreamFor))
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		return
	}
	select { // a body that stood still before cannot be read any more
	case <-over.C:
	case <-r.Context().Done():
	}
}
