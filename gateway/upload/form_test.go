package upload

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestFormEnd finds the last boundary of a form whatever the reads are, and finds none in a form that lacks it.
func TestFormEnd(t *testing.T) {
	for body, want := range map[string]bool{
		"--b\r\n\r\nx\r\n--b--\r\n": true, "--b--": true, "--b\r\n\r\nx\n--b--\r\nepilogue": true,
		strings.Repeat("x", 9000) + "\r\n--b--": true,
		"":                                      false, "--b": false, "--b-": false, "--b\r\n\r\nx\r\n--b\r\n": false,
		"--b\r\n\r\nx--b--": false,
		"\r\n--b-\r\n-":     false,
	} {
		for name, read := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			"halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
		} {
			b := newFormBody(read(strings.NewReader(body)), "b")
			if got, err := io.ReadAll(b); err != nil || string(got) != body || b.ended != want {
				t.Errorf("%.30q, %s: ended %t, want %t; %v", body, name, b.ended, want, err)
			}
		}
	}
}

// FuzzFormEnd compares with a search in the whole form.
func FuzzFormEnd(f *testing.F) {
	f.Add("--b\r\n\r\nx\r\n--b--\r\n", 3)
	f.Add("\n\n--b--b--\n--b--", 1)
	f.Fuzz(func(t *testing.T, body string, size int) {
		b := newFormBody(strings.NewReader(body), "b")
		for p := make([]byte, 1+uint(size)%20); ; {
			if _, err := b.Read(p); err != nil {
				break
			}
		}
		if want := strings.Contains("\n"+body, "\n--b--"); b.ended != want {
			t.Errorf("%q in reads of %d bytes: %t", body, 1+uint(size)%20, b.ended)
		}
	})
}
