package node_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/status"
)

// sent is the body of POST /b3 and its type.
type sent struct{ body, media string }

// tarNamed returns a tar with a file for each name.
func tarNamed(t *testing.T, names ...string) sent {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range names {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sent{b.String(), "application/x-tar"}
}

// zipNamed is tarNamed for a zip.
func zipNamed(t *testing.T, content string, names ...string) sent {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, name := range names {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sent{b.String(), "application/zip"}
}

// formNamed is tarNamed for a form.
func formNamed(t *testing.T, names ...string) sent {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, name := range names {
		header := textproto.MIMEHeader{}
		header.Set("Content-Disposition", fmt.Sprintf(`form-data; name="files"; filename="%s"`, name))
		f, err := w.CreatePart(header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return sent{b.String(), w.FormDataContentType()}
}

// half returns the first half of the body, as if it was cut.
func (s sent) half() sent { return sent{s.body[:len(s.body)/2], s.media} }

// TestHostileArchives posts bad archives to a node. Each gets a typed answer, as a problem for programs and as a page
// for browsers, and none leaves a pin. Names that only look bad are stored.
func TestHostileArchives(t *testing.T) {
	home := t.TempDir()
	token := mintForAnHour(t, home)
	n := startAt(t, home, nil)
	post := func(s sent, accept string) (code int, h http.Header, body string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, n.ID().Gateway+"/b3",
			strings.NewReader(s.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", s.media)
		req.Header.Set("Accept", accept)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		p, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header, string(p)
	}

	long := strings.Repeat("n", 10<<10)
	composed, decomposed := "caf\u00e9", "cafe\u0301"
	bad := map[string]struct {
		sent
		want status.Outcome
	}{
		"an absolute name": {tarNamed(t, "/etc/passwd"), status.BadRequest},
		"escaping":         {tarNamed(t, "a/../../b"), status.BadRequest},
		"a long name":      {tarNamed(t, long), status.BadRequest},
		"two in form C":    {tarNamed(t, composed, decomposed), status.BadRequest},
		"a file below one": {tarNamed(t, "a", "a/b"), status.BadRequest},
		"no end":           {tarNamed(t, "a", "b").half(), status.BadRequest},

		"zip: an absolute name": {zipNamed(t, "x", "/etc/passwd"), status.BadRequest},
		"zip: escaping":         {zipNamed(t, "x", "../a"), status.BadRequest},
		"zip: a long name":      {zipNamed(t, "x", long), status.BadRequest},
		"zip: two in form C":    {zipNamed(t, "x", composed, decomposed), status.BadRequest},
		"zip: no end":           {zipNamed(t, "x", "a", "b").half(), status.BadRequest},
		"zip: a bomb":           {zipNamed(t, strings.Repeat("\x00", 64<<20), "zeros"), status.DecompressCap},
		"zip: no zip":           {sent{"not a zip", "application/zip"}, status.BadRequest},

		"form: an absolute name": {formNamed(t, "/etc/passwd"), status.BadRequest},
		"form: escaping":         {formNamed(t, "../a"), status.BadRequest},
		"form: a long name":      {formNamed(t, long), status.BadRequest},
		"form: two in form C":    {formNamed(t, composed, decomposed), status.BadRequest},
		"form: no end":           {formNamed(t, "a", "b").half(), status.BadRequest},
		"form: no boundary":      {sent{formNamed(t, "a").body, "multipart/form-data"}, status.BadRequest},
	}
	for name, c := range bad {
		code, h, body := post(c.sent, "application/json")
		if h.Get("X-Reason") != c.want.String() || code < 400 || h.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %s", name, code, h, body)
		}
		code, h, body = post(c.sent, "text/html,*/*;q=0.8")
		if h.Get("X-Reason") != c.want.String() || !strings.HasPrefix(h.Get("Content-Type"), "text/html") ||
			!strings.Contains(body, fmt.Sprintf("<h1>%d", code)) || !strings.Contains(body, "</html>") {
			t.Errorf("%s, as a page: %d %v %s", name, code, h, body)
		}
	}
	for pin, err := range n.api.Pins(t.Context()) {
		t.Errorf("a bad archive is pinned: %+v, %v", pin, err)
	}

	// What a file system may hold is stored, under the address that add gives it.
	odd := []string{"A", "a", "new\nline", "bidi\u202etxt.exe", "sub/" + strings.Repeat("n", 255)}
	dir := t.TempDir()
	for _, name := range odd {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), []byte("x"))
	}
	want := add(t, n, dir)[0].Root.String()
	inForm := make([]string, len(odd))
	for i, name := range odd {
		inForm[i] = strings.ReplaceAll(name, "\n", "%0A")
	}
	for name, s := range map[string]sent{
		"tar": tarNamed(t, odd...), "zip": zipNamed(t, "x", odd...), "form": formNamed(t, inForm...),
	} {
		if code, _, body := post(s, "application/json"); code >= 300 || !strings.Contains(body, want) {
			t.Errorf("odd names in a %s: %d %s, want %s", name, code, body, want)
		}
	}
}
