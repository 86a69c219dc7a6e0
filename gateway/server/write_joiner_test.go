package server

import (
	"bytes"
	"errors"
	"net"
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

// TestJoinedWrites: the beginning of an answer waits for the rest where that is
// certain to come, and nothing else waits.
func TestJoinedWrites(t *testing.T) {
	t.Parallel()
	header := "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"
	full := header + strings.Repeat("x", 4096-len(header))
	for _, c := range []struct {
		name  string
		body  int64
		first string
		held  bool
	}{
		{"header and the most of the body", 5000, full, true},
		{"header alone", 5000, header, true},
		{"all of it", int64(len(full) - len(header)), full, false},
		{"one byte is missing", int64(len(full)-len(header)) + 1, full, true},
		{"the body is not known", 0, full, false},
		{"no end of a header", 5000, full[len(header):], false},
		{"more than a buffer", 5000, full + "x", false},
	} {
		w := &wire{room: 1 << 20}
		k := &conn{Conn: w}
		k.joiner.body = c.body
		if n, err := k.Write([]byte(c.first)); n != len(c.first) || err != nil {
			t.Errorf("%s: first: %d, %v", c.name, n, err)
		}
		if held := w.got.Len() == 0; held != c.held {
			t.Errorf("%s: held %t", c.name, held)
		}
		for _, p := range []string{"rest", header, "more"} { // an answer that follows begins anew
			if n, err := k.Write([]byte(p)); n != len(p) || err != nil {
				t.Errorf("%s: %d, %v", c.name, n, err)
			}
		}
		if got := w.got.String(); got != c.first+"rest"+header+"more" {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestJoinedWriteFails: what of the second write was not sent is told.
func TestJoinedWriteFails(t *testing.T) {
	t.Parallel()
	header := []byte("HTTP/1.1 200 OK\r\n\r\n")
	for room := range len(header) + 4 {
		w := &wire{room: room}
		k := &conn{Conn: w}
		k.joiner.body = 4
		if _, err := k.Write(header); err != nil {
			t.Fatal(err)
		}
		n, err := k.Write([]byte("body"))
		if want := max(0, room-len(header)); n != want || !errors.Is(err, errFull) {
			t.Errorf("room for %d: %d, %v; want %d", room, n, err, want)
		}
	}
}
