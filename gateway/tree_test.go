package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// field is a part of a form: a file if it has a name.
type field struct{ name, file, value string }

// formOf returns a form and its Content-Type.
func formOf(t testing.TB, fields ...field) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, f := range fields {
		h := textproto.MIMEHeader{}
		disposition := fmt.Sprintf(`form-data; name="%s"`, f.name)
		if f.file != "" {
			disposition += fmt.Sprintf(`; filename="%s"`, f.file)
		}
		h.Set("Content-Disposition", disposition)
		p, err := w.CreatePart(h)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Write([]byte(f.value)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String(), w.FormDataContentType()
}

// TestPostTree: the body of each format reaches the store, a capability in the header is checked before the
// body is read, and a form may bring one in front of its files alone.
func TestPostTree(t *testing.T) {
	t.Parallel()
	caps := newMinted(t)
	n := startWith(t, hooks{deps: func(d *Deps) { d.Capabilities = caps }})
	url := n.Addrs().Gateway + "/b3"
	token := caps.mint(t)
	secret := strings.TrimPrefix(token[1], "Bearer ")
	for _, media := range []string{"application/x-tar", "application/zip"} {
		a := sendBody(t, "POST", url, strings.NewReader(media), append(token, "Content-Type", media)...)
		var got api.Added
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.StatusCode != http.StatusCreated ||
			got.Root != b3.Sum([]byte(media)) || a.Header.Get("Location") != "/b3/"+got.Root.String()+"/" {
			t.Errorf("%s: %s %s", media, a.Status, a.body)
		}
		doBody(t, "POST", url, strings.NewReader(media), "Content-Type", media).problem(t, status.Unauthenticated)
	}
	sendBody(t, "POST", url, strings.NewReader("x"), append(token, "Content-Type", "application/x-7z-compressed")...).
		problem(t, status.Unsupported)

	files := []field{{"f", "photos/a.txt", "a"}, {"f", "photos/%22b%22.txt", "bb"}, {"g", "c", ""}}
	body, media := formOf(t, append([]field{{"token", "", " " + secret + "\n"}}, files...)...)
	want := b3.Sum([]byte(`photos/a.txta` + `photos/"b".txtbb` + "c"))
	a := doBody(t, "POST", url+"?label=web", strings.NewReader(body), "Content-Type", media)
	if a.StatusCode != http.StatusCreated || !strings.Contains(a.body, want.String()) {
		t.Errorf("%s %s", a.Status, a.body)
	}
	if label, ok := n.sent.pinned(want); !ok || label != "web" {
		t.Errorf("pinned %q %v", label, ok)
	}
	page := doBody(t, "POST", url, strings.NewReader(body), "Content-Type", media, "Accept", "text/html,*/*;q=0.8")
	if to := page.Header.Get("Location"); page.StatusCode != http.StatusSeeOther || page.body != "" ||
		to != "/b3/"+want.String()+"/" {
		t.Errorf("a browser: %s %v %s", page.Status, page.Header, page.body)
	}

	read := n.sent.wasRead()
	for name, c := range map[string]struct {
		fields []field
		header bool // the capability is in the header too
		want   status.Outcome
	}{
		"no token":         {files, false, status.Unauthenticated},
		"token at the end": {append(files[:3:3], field{"token", "", secret}), false, status.Unauthenticated},
		"a wrong token":    {append([]field{{"token", "", "wrong"}}, files...), false, status.Unauthenticated},
		"a long token": {
			append([]field{{"token", "", strings.Repeat("x", 9<<10)}}, files...), false, status.Unauthenticated,
		},
		"two tokens": {
			append([]field{{"token", "", secret}, {"token", "", secret}}, files...), false, status.Unauthenticated,
		},
		"two capabilities": {append([]field{{"token", "", secret}}, files...), true, status.Unauthenticated},
		"another field":    {append([]field{{"title", "", "x"}}, files...), true, status.BadRequest},
		"only a token":     {[]field{{"token", "", secret}}, false, status.BadRequest},
		"nothing":          {nil, true, status.BadRequest},
	} {
		body, media := formOf(t, c.fields...)
		headers := []string{"Content-Type", media}
		if c.header {
			headers = append(headers, token...)
		}
		if a := doBody(t, "POST", url, strings.NewReader(body),
			headers...); a.Header.Get("X-Reason") != c.want.String() {
			t.Errorf("%s: %s %s", name, a.Status, a.body)
		}
	}
	if got := n.sent.wasRead(); got != read {
		t.Errorf("%d bytes of refused forms were stored", got-read)
	}

	late, media := formOf(t, append(append([]field{{"token", "", secret}}, files...), field{"token", "", secret})...)
	doBody(t, "POST", url, strings.NewReader(late), "Content-Type", media).problem(t, status.BadRequest)
	for cut := range len(body) - len("\r\n") { // the line of the last boundary may lack its end
		a := doBody(t, "POST", url, strings.NewReader(body[:cut]), "Content-Type", formType(t, body))
		if o := a.Header.Get("X-Reason"); o != status.BadRequest.String() && o != status.Unauthenticated.String() {
			t.Fatalf("cut after %d of %d bytes: %s %s %q", cut, len(body), a.Status, a.body, body[:cut])
		}
	}
	for _, media := range []string{"multipart/form-data", "multipart/form-data; boundary=" + strings.Repeat("x", 71)} {
		doBody(t, "POST", url, strings.NewReader(body), "Content-Type", media).problem(t, status.BadRequest)
	}
}

// formType returns the Content-Type of a form, whose first line is its boundary.
func formType(t testing.TB, body string) string {
	t.Helper()
	line, _, ok := strings.Cut(body, "\r\n")
	if !ok {
		t.Fatal("no form")
	}
	return "multipart/form-data; boundary=" + strings.TrimPrefix(line, "--")
}

// TestPostTreeIsBounded: a capability bounds the bytes of an archive and of a form, and one that is limited
// to objects allows neither.
func TestPostTreeIsBounded(t *testing.T) {
	t.Parallel()
	caps := newMinted(t)
	n := startWith(t, hooks{deps: func(d *Deps) { d.Capabilities = caps }})
	url := n.Addrs().Gateway + "/b3"
	small, one := caps.mint(t, "bytes <= 100000"), caps.mint(t, "obj ^= "+b3.Sum([]byte("x")).String())
	large := strings.Repeat("x", 200_000)
	sendBody(t, "POST", url, strings.NewReader(large), append(small, "Content-Type", "application/x-tar")...).
		problem(t, status.Forbidden)
	body, media := formOf(t, field{"token", "", strings.TrimPrefix(small[1], "Bearer ")}, field{"f", "large", large})
	chunked := struct{ *strings.Reader }{strings.NewReader(body)} // the client does not know its length
	if a := doBody(t, "POST", url, chunked, "Content-Type",
		media); a.Header.Get("X-Reason") != status.BodyCap.String() {
		t.Errorf("a long form: %s %s", a.Status, a.body)
	}
	sendBody(t, "POST", url, strings.NewReader("x"), append(one, "Content-Type", "application/x-tar")...).
		problem(t, status.Forbidden)
	body, media = formOf(t, field{"token", "", strings.TrimPrefix(one[1], "Bearer ")}, field{"f", "x", "x"})
	doBody(t, "POST", url, strings.NewReader(body), "Content-Type", media).problem(t, status.Forbidden)
}
