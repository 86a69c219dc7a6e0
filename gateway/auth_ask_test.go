package gateway

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// askedFor are the capabilities of a node that tell what is asked, and allow nothing.
type askedFor struct{ verified func(capability.Request) }

func (a *askedFor) Verify(_ context.Context, _ string, ask capability.Request) (capability.Grant, error) {
	a.verified(ask)
	return capability.Grant{}, status.Errorf(status.Forbidden, "not by this test")
}

// TestWhatIsActedOn: the object that a capability is held against is the one
// that the handler acts on, and none where that is not one object.
func TestWhatIsActedOn(t *testing.T) {
	t.Parallel()
	root := b3.Sum([]byte("x"))
	a := root.String()
	id := strings.Repeat("0f", 16)
	one, tree := capability.Request{Object: root}, capability.Request{Object: root, Recursive: true}
	none, later := capability.Request{}, capability.Request{ObjectLater: true}
	labelled := capability.Request{Object: root, Label: "my photos"}
	asked := &askedFor{}
	cfg := DefaultConfig()
	cfg.Rate = 0
	g, err := New(cfg, server.DefaultAdminConfig(), Deps{
		Objects: &fakeObjects{}, Index: &fakeIndex{}, Node: &fakeNode{}, Ready: nothingReady, Capabilities: asked,
	})
	if err != nil {
		t.Fatal(err)
	}
	public, admin := g.Handler(server.Public), g.Handler(server.Admin)
	for _, c := range []struct {
		method, target string
		want           capability.Request
	}{
		{"PUT", "/o/" + a, one},
		{"PUT", "/o/" + a[:20], none},
		{"PUT", "/o/" + a + "?label=my+photos", labelled},
		{"POST", "/o", none},
		{"POST", "/o?label=x", capability.Request{Label: "x"}},
		{"POST", "/u?label=x", capability.Request{Label: "x"}},
		{"HEAD", "/u/" + id, later},
		{"PATCH", "/u/" + id, later},
		{"DELETE", "/u/" + id, later},
		{"POST", "/api/v1/add?label=x", capability.Request{Label: "x"}},
		{"POST", "/api/v1/pin/add?key=" + a, one},
		{"POST", "/api/v1/pin/add?recursive=true&key=b3%3A" + a[3:], tree},
		{"POST", "/api/v1/pin/add?recursiv%65=tru%65&key=" + a, tree},
		{"POST", "/api/v1/pin/add?recursive=false&key=" + a, one},
		{"POST", "/api/v1/pin/add?label=my%20photos&key=" + a, labelled},
		{"POST", "/api/v1/pin/rm?key=" + a, one},
		{"POST", "/api/v1/pin/rm?label=my+photos&key=" + a, labelled},
		{"POST", "/api/v1/announce?key=" + a, one},
		{"POST", "/api/v1/fetch?key=" + a, tree},
		{"POST", "/api/v1/verify?key=" + a, tree},
		{"POST", "/api/v1/verify", capability.Request{Recursive: true}},
		{"POST", "/api/v1/pin/add?key=" + a + "/below", none},
		{"POST", "/api/v1/pin/add?key=" + a + "&key=" + a, none},
		{"POST", "/api/v1/pin/add?key=" + a + "&x=%zz", none},
		{"POST", "/api/v1/pin/add?key=name", none},
		{"POST", "/api/v1/gc/run?label=x&key=" + a, none},
		{"POST", "/api/v1/store/damage/accept?key=" + a, none},
		{"POST", "/admin/pin?recursive=true&label=x&key=" + a, none},
	} {
		on := admin
		if strings.Contains("ou", c.target[1:2]) {
			on = public
		}
		var got capability.Request
		asked.verified = func(ask capability.Request) { got = ask }
		serve(on, c.method, c.target, "192.0.2.1:1", nil, "Host", "localhost", "Authorization", "Bearer x")
		if got.Op == "" {
			t.Errorf("%s %s needs no capability", c.method, c.target)
		}
		c.want.Op, c.want.Method = got.Op, c.method
		if got != c.want {
			t.Errorf("%s %s asks for %+v, want %+v", c.method, c.target, got, c.want)
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
	if a := do(t, "POST", n.Addrs().Admin+"/api/v1/drain", "Authorization",
		"Bearer may-nothing"); a.Header.Get("WWW-Authenticate") != "" {
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
		sendBody(t, "POST", gateway+"/u", nil,
			append(append(expect, length...), may...)...).problem(t, status.Forbidden)
	}
	if a := sendBody(t, "POST", gateway+"/u", nil, append(may, "Upload-Length", "1000", "Upload-Expect",
		"b3:x")...); a.StatusCode < 400 {
		t.Errorf("%s", a.Status)
	}
	sendBody(t, "POST", gateway+"/o", bytes.NewReader(p), may...).problem(t, status.Forbidden)

	for _, expect := range [][]string{nil, {"Upload-Expect", b3.Sum([]byte("another")).String()}} {
		page := begin(t, n, len(p), "", expect...) // by somebody who may
		if a := sendBody(t, "HEAD", page, nil, may...); a.StatusCode != http.StatusForbidden {
			t.Errorf("%s", a.Status)
		}
		piece(t, page, 0, bytes.NewReader(p[:10]), may...).problem(t, status.Forbidden)
		sendBody(t, "DELETE", page, nil, may...).problem(t, status.Forbidden)
		if a := sendBody(t, "HEAD", page, nil); a.StatusCode != http.StatusOK {
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
	page = begin(t, n, 5, "", append(may, "Upload-Expect",
		strings.Replace(root.String(), root.String()[60:], "0000000", 1))...)
	if a := sendBody(t, "DELETE", page, nil, may...); a.StatusCode != http.StatusNoContent {
		t.Errorf("%s %s", a.Status, a.body)
	}
}
