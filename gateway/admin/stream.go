package admin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode/utf16"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// sendStream sends bytes, and their outcome in a trailer (see package client). It sends the header
// with the first bytes.
func sendStream(w *exchange.Response, r *http.Request, s *api.Stream) (err error) {
	defer s.Body.Close()
	w.LookupID, _ = status.ParseLookupID(s.LookupID)
	if !r.ProtoAtLeast(1, 1) {
		return errNoLength
	}
	out := &streamWriter{w: w, Of: s}
	_, err = io.CopyBuffer(out, s.Body, make([]byte, copyBytes))
	if err == nil {
		err = out.begin()
	}
	err = exchange.CauseOf(r.Context(), err)
	if err == nil {
		w.Header().Set(api.HeaderStatus, api.StatusOK)
		return nil
	}
	if !w.Started() || w.Failed != nil || !wantsTrailers(r) {
		return err
	}
	trailer, jsonErr := asciiJSON(status.ReportOf(err))
	if jsonErr != nil {
		return err
	}
	w.Reported = err
	w.Header().Set(api.HeaderStatus, trailer)
	return nil
}

// copyBytes is the size of the copy buffer: one chunk group.
const copyBytes = 64 << 10

// streamWriter sends the header with the first bytes.
type streamWriter struct {
	w  *exchange.Response
	Of *api.Stream
}

func (s *streamWriter) begin() error {
	if s.w.Started() {
		return nil
	}
	head, err := asciiJSON(s.Of.Object)
	if err != nil {
		return err
	}
	h := s.w.Header()
	h.Set(api.HeaderObject, head)
	h.Set("Trailer", api.HeaderStatus)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/octet-stream")
	if s.Of.Kind == api.Directory {
		h.Set("Content-Type", "application/x-tar")
	}
	s.w.WriteHeader(http.StatusOK)
	return nil
}

func (s *streamWriter) Write(p []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	return s.w.Write(p)
}

// wantsTrailers reports whether the client reads trailers, which tell that a body ended in an
// error.
func wantsTrailers(r *http.Request) bool {
	for _, v := range r.Header.Values("TE") {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), "trailers") {
				return true
			}
		}
	}
	return false
}

// asciiJSON encodes v as JSON for a header. It escapes DEL and the characters that are not ASCII.
func asciiJSON(v any) (string, error) {
	p, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode a header: %w", err)
	}
	var b strings.Builder
	for _, c := range string(p) {
		if c < '\x7f' {
			b.WriteRune(c)
			continue
		}
		for _, u := range utf16.AppendRune(nil, c) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String(), nil
}

// errNoLength is the error for HTTP/1.0 clients, which could not tell a cut answer from a complete
// one.
var errNoLength = status.Errorf(status.BadRequest,
	"cannot send the answer with HTTP/1.0: its length is not known in advance. Use HTTP/1.1")
