package upload

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
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

// readForm returns how many files a form has and the bytes in them.
func readForm(t testing.TB, body []byte, boundary string) (files int, size int64, err error) {
	t.Helper()
	w := &exchange.Response{Caller: exchange.Caller{Grant: capability.Grant{MaxBytes: -1}}}
	f := newForm(bytes.NewReader(body), boundary, w, httptest.NewRequestWithContext(t.Context(), "POST", "/b3", nil))
	if err := f.begin(); err != nil {
		return 0, 0, err
	}
	for {
		_, file, err := f.next()
		if errors.Is(err, io.EOF) {
			return files, size, nil
		}
		if err != nil {
			return files, size, err
		}
		n, err := io.Copy(io.Discard, file)
		if size += n; err != nil {
			return files, size, err
		}
		files++
	}
}

// aForm returns a form with a file for each name and the boundary "b".
func aForm(t testing.TB, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary("b"); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		part, err := w.CreateFormFile("files", name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(part, "content of "+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// FuzzForm: whatever the bytes, the files have no more of them than the body, and every error is the sender's. A form
// without its last boundary is no form.
func FuzzForm(f *testing.F) {
	whole := aForm(f, "a", "d/b")
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(strings.ReplaceAll(string(whole), "\r\n", "\n")))
	f.Add([]byte(strings.ReplaceAll(string(whole), "filename", "name")))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\nx\r\n--b--"))
	f.Add([]byte("--b\r\nContent-Disposition: form-data; filename*=utf-8''%2e%2e%2fa\r\n\r\nx\r\n--b--"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, size, err := readForm(t, body, "b")
		if size > int64(len(body)) {
			t.Errorf("%d bytes in a body of %d", size, len(body))
		}
		switch o := status.Of(err); {
		case err == nil:
			if !bytes.Contains(body, []byte("--b--")) {
				t.Error("a form without an end is whole")
			}
		case o != status.BadRequest && o != status.Unauthenticated:
			t.Errorf("%s: %v", o, err)
		}
	})
}
