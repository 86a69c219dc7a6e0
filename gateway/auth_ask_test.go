package gateway

import (
	"net/http/httptest"
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
	for _, c := range []struct {
		method, target string
		want           b3.Root
	}{
		{"PUT", "/o/" + a, root},
		{"PUT", "/o/" + a[:20], b3.Root{}},
		{"POST", "/o", b3.Root{}},
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
		if c.target[1] == 'o' {
			router = publicRouter
		}
		rt := router.route(r.URL.EscapedPath(), c.method)
		if rt.op == "" {
			t.Errorf("%s %s needs no capability", c.method, c.target)
		}
		if got := rt.acts(r); got != c.want {
			t.Errorf("%s %s acts on %s, want %s", c.method, c.target, got, c.want)
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
