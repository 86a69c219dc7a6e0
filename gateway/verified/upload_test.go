package verified

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// TestUploadGivesUp: a gateway that begins uploads and then forgets them, or goes
// back behind what it had, is not sent the same bytes for ever.
func TestUploadGivesUp(t *testing.T) {
	t.Parallel()
	for name, patch := range map[string]func(w http.ResponseWriter, r *http.Request){
		"forgets": func(w http.ResponseWriter, _ *http.Request) {
			problem(w, http.StatusNotFound, `{"reason":"not_found"}`)
		},
		"forgets half": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upload-Offset") != "0" {
				problem(w, http.StatusGone, `{"reason":"gone"}`)
				return
			}
			w.Header().Set("Upload-Offset", "5")
			w.WriteHeader(http.StatusNoContent)
		},
		"goes back": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upload-Offset") != "0" {
				problem(w, http.StatusServiceUnavailable, `{"reason":"draining"}`)
				return
			}
			w.Header().Set("Upload-Offset", "5")
			w.WriteHeader(http.StatusNoContent)
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var sent atomic.Int64
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			switch r.Method {
			case http.MethodPost:
				w.Header().Set("Location", "/u/"+strings.Repeat("0", 32))
				w.WriteHeader(http.StatusCreated)
			case http.MethodHead:
				w.Header().Set("Upload-Offset", "0")
			case http.MethodPatch:
				if sent.Add(1) > 20 {
					cancel()
				}
				patch(w, r)
			}
		}))
		g, err := New(s.URL, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Upload(ctx, strings.NewReader("0123456789"), 10, PutOptions{}); err == nil || ctx.Err() != nil {
			t.Errorf("%s: %d pieces were sent: %v", name, sent.Load(), err)
		}
		g.Close()
		s.Close()
		cancel()
	}
}

// problem answers with an error as a gateway does.
func problem(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}
