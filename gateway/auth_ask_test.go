package gateway

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestWhatIsActedOn: the object that a capability is held against is the one
// that the handler acts on, and none where that is not one object.
func TestWhatIsActedOn(t *testing.T) {
	t.Parallel()
	root := b3.Sum([]byte("x"))
	a := root.String()
	id := strings.Repeat("0f", 16)
	for _, c := range []struct {
		method, target string
		want           b3.Root
	}{
		{"PUT", "/o/" + a, root},
		{"PUT", "/o/" + a[:20], b3.Root{}},
		{"POST", "/o", b3.Root{}},
		{"HEAD", "/u/" + id, b3.Root{}},
		{"PATCH", "/u/" + id, b3.Root{}},
		{"DELETE", "/u/" + id, b3.Root{}},
		{"POST", "/api/v1/pin/add?key=" + a, root},
		{"POST", "/api/v1/pin/add?recursive=true&key=b3%3A" + a[3:], root},
		{"POST", "/api/v1/pin/rm?key=" + a, root},
		{"POST", "/api/v1/verify?key=" + a, root},
		{"POST", "/api/v1/verify", b3.Root{}},
		{"POST", "/api/v1/pin/add?key=" + a + "/below", b3.Root{}},
		{"POST", "/api/v1/pin/add?key=" + a + "&key=" + a, b3.Root{}},
		{"POST", "/api/v1/pin/add?key=" + a + "&x=%zz", b3.Root{}},
		{"POST", "/api/v1/pin/add?key=name", b3.Root{}},
		{"POST", "/api/v1/gc/run?key=" + a, b3.Root{}},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		router := adminRouter
		if strings.Contains("ou", c.target[1:2]) {
			router = publicRouter
		}
		rt := router.route(r.URL.EscapedPath(), c.method)
		if rt.op == "" {
			t.Errorf("%s %s needs no capability", c.method, c.target)
		}
		if got, later := rt.acts(r); got != c.want || later != strings.HasPrefix(c.target, "/u/") {
			t.Errorf("%s %s acts on %s, want %s; later: %v", c.method, c.target, got, c.want, later)
		}
	}
}

// TestUnauthorizedSaysWhatItWants: a 401 has the scheme.
func TestUnauthorizedSaysWhatItWants(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, h := range [][]string{nil, {"Authorization", "Bearer nonsense"}} {
		a := do(t, "POST", n.Addrs().Admin+"/api/v1/drain", h...)
		a.problem(t, status.Unauthenticated)
		if got := a.Header.Get("WWW-Authenticate"); got != "Bearer" {
			t.Errorf("WWW-Authenticate is %q", got)
		}
	}
	if a := do(t, "POST", n.Addrs().Admin+"/api/v1/drain", "Authorization", "Bearer may-nothing"); a.Header.Get("WWW-Authenticate") != "" {
		t.Error("a 403 asks for another capability")
	}
}

// TestUploadOfAllowedObject: a capability for some objects begins and continues
// uploads of those, and neither sees nor touches others.
func TestUploadOfAllowedObject(t *testing.T) {
	t.Parallel()
	n := start(t)
	p := noise(1000)
	root := b3.Sum(p)
	gateway := n.Addrs().Gateway
	may := []string{"Authorization", "Bearer may-put,pin@" + root.String()[:20]}
	length := []string{"Upload-Length", "1000"}
	for _, expect := range [][]string{
		nil,
		{"Upload-Expect", b3.Sum([]byte("another")).String()},
	} {
		upload(t, "POST", gateway+"/u", nil, append(append(expect, length...), may...)...).problem(t, status.Forbidden)
	}
	if a := upload(t, "POST", gateway+"/u", nil, append(may, "Upload-Length", "1000", "Upload-Expect", "b3:x")...); a.StatusCode < 400 {
		t.Errorf("%s", a.Status)
	}
	upload(t, "POST", gateway+"/o", bytes.NewReader(p), may...).problem(t, status.Forbidden)

	for _, expect := range [][]string{nil, {"Upload-Expect", b3.Sum([]byte("another")).String()}} {
		page := begin(t, n, len(p), "", expect...) // by somebody who may
		if a := upload(t, "HEAD", page, nil, may...); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s", a.Status)
		}
		piece(t, page, 0, bytes.NewReader(p[:10]), may...).problem(t, status.Forbidden)
		upload(t, "DELETE", page, nil, may...).problem(t, status.Forbidden)
		if a := upload(t, "HEAD", page, nil); a.StatusCode != http.StatusOK {
			t.Errorf("%s", a.Status)
		} else {
			a.offset(t, 0, len(p))
		}
	}

	page := begin(t, n, len(p), "", append(may, "Upload-Expect", root.String())...)
	if a := piece(t, page, 0, bytes.NewReader(p[:10]), may...); a.StatusCode != http.StatusNoContent {
		t.Fatalf("%s %s", a.Status, a.body)
	}
	if a := piece(t, page, 10, bytes.NewReader(p[10:]), may...); a.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s", a.Status, a.body)
	}
	page = begin(t, n, 5, "", append(may, "Upload-Expect", strings.Replace(root.String(), root.String()[60:], "0000000", 1))...)
	if a := upload(t, "DELETE", page, nil, may...); a.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", a.Status, a.body)
	}
}
