package server

import (
	"io"
	"net/http"
	"time"
)

// lingerStreamTimeout bounds how long an abandoned body on HTTP/2 is still read. net/http waits
// as long before it resets a connection.
const lingerStreamTimeout = 500 * time.Millisecond

// linger keeps the rest of an abandoned body from destroying the answer.
//
// On HTTP/1.1 with "Connection: close", net/http closes at once, and the reset that answers the
// rest of the body can overtake the answer (RFC 9112 §9.6). So linger reads the rest until the
// deadline that AbandonBody set.
//
// On HTTP/2, the stream is reset as soon as its handler returns, and some clients, curl among
// them, drop the part of the answer that they have not read by then. After a status of 300 or
// above, at which clients stop sending, the stream stays open until the body has ended or
// lingerStreamTimeout has passed.
func (s *Server) linger(w *delivery, r *http.Request) {
	switch {
	case !w.BodyAbandoned || w.rc.Flush() != nil:
	case r.ProtoMajor < 2:
		_, _ = io.Copy(io.Discard, r.Body) // the answer was sent, so an error has no meaning
	case w.Status >= http.StatusMultipleChoices:
		s.lingerStream(w, r)
	}
}

func (s *Server) lingerStream(w *delivery, r *http.Request) {
	release, err := s.bounds.lingers.TryAcquire()
	if err != nil {
		return
	}
	defer release()
	over := time.NewTimer(lingerStreamTimeout)
	defer over.Stop()
	_ = w.rc.SetReadDeadline(time.Now().Add(lingerStreamTimeout))
	if _, err := io.Copy(io.Discard, r.Body); err == nil {
		return
	}
	select { // a body that ran into a deadline cannot be read any more
	case <-over.C:
	case <-r.Context().Done():
	}
}
