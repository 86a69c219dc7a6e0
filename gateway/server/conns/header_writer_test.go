package conns

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// wire keeps what is written to a connection, and fails at room bytes.
type wire struct {
	net.Conn
	got  bytes.Buffer
	room int
}

var errFull = errors.New("nobody reads")

func (w *wire) Write(p []byte) (int, error) {
	if w.got.Len()+len(p) > w.room {
		n, _ := w.got.Write(p[:w.room-w.got.Len()])
		return n, errFull
	}
	return w.got.Write(p)
}

// The header that net/http writes, and the one that replaces it, for a body of 5000 bytes.
const (
	told   = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nDate: now\r\n\r\n"
	wanted = "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\nContent-Type: text/plain\r\nEtag: \"1\"\r\nDate: now\r\n\r\n"
)

// begun returns a connection to w with a pending header, of whose body part bytes are being written.
func begun(t *testing.T, w *wire, part int) *Conn {
	t.Helper()
	k := &Conn{Conn: w}
	k.header.NewRequest()
	k.header.fields = http.Header{"Etag": {` "1" `}, "Content-Length": {"5000"}, "Content-Type": {"text/plain"}}
	if !k.header.Begin(httptest.NewRecorder(), http.StatusOK) {
		t.Fatal("net/http writes the header")
	}
	k.header.Announce(part)
	return k
}

// TestHeaderWaits: the beginning of an answer waits for the rest where that is certain to come, and nothing else waits.
func TestHeaderWaits(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", netHTTPBuffer-len(told))
	for _, c := range []struct {
		name  string
		part  int
		first string // of the body
		held  bool
	}{
		{"the most of the body", 5000, full, true},
		{"the header alone", 5000, "", true},
		{"no body", 0, "", false},
		{"a part that net/http keeps", len(full) + netHTTPBuffer, full, false},
		{"a part that it does not keep", len(full) + netHTTPBuffer + 1, full, true},
		{"a part that is sent", len(full), full, false},
	} {
		w := &wire{room: 1 << 20}
		k := begun(t, w, c.part)
		if n, err := k.Write([]byte(told + c.first)); n != len(told)+len(c.first) || err != nil {
			t.Errorf("%s: first: %d, %v", c.name, n, err)
		}
		if held := w.got.Len() == 0; held != c.held {
			t.Errorf("%s: held %t", c.name, held)
		}
		for _, p := range []string{"rest", told, "more"} { // net/http may write headers of its own
			if n, err := k.Write([]byte(p)); n != len(p) || err != nil {
				t.Errorf("%s: %d, %v", c.name, n, err)
			}
		}
		if got := w.got.String(); got != wanted+c.first+"rest"+told+"more" {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	k := begun(t, &wire{}, 0)
	if _, err := k.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); !errors.Is(err, errNetHTTPHeader) {
		t.Errorf("another header: %v", err)
	}
}

// TestHeaderFails: what of the second write was not sent is told.
func TestHeaderFails(t *testing.T) {
	t.Parallel()
	for room := range len(wanted) + 5000 {
		w := &wire{room: room}
		k := begun(t, w, 5000)
		if _, err := k.Write([]byte(told)); err != nil {
			t.Fatal(err)
		}
		n, err := k.Write(make([]byte, 5000))
		if want := max(0, room-len(wanted)); n != want || !errors.Is(err, errFull) {
			t.Errorf("room for %d: %d, %v; want %d", room, n, err, want)
		}
	}
}
