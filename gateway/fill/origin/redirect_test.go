package origin

import (
	"net/http"
	"strings"
	"testing"

	"allium/protocols/status"
)

// TestRedirects: a redirect leads to https at port 443, or at the source's own host and port, twice at most.
func TestRedirects(t *testing.T) {
	t.Parallel()
	var r *rig
	var location string
	r = newRig(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/base/start":
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		case "/two":
			http.Redirect(w, q, "/one", http.StatusPermanentRedirect)
		case "/one":
			http.Redirect(w, q, "/end", http.StatusSeeOther)
		case "/ping":
			http.Redirect(w, q, "/pong", http.StatusFound)
		case "/pong":
			http.Redirect(w, q, "/ping", http.StatusFound)
		case "/end":
			if q.Referer() != "" || q.Header.Get("Authorization") != "" || q.Header.Get("Cookie") != "" {
				t.Errorf("the redirect brought %v", q.Header)
			}
			_, _ = w.Write([]byte("end"))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}, nil)
	own := "127.0.0.1:" + r.port
	for _, c := range []struct {
		to     string
		ok     bool
		detail string
	}{
		{"/end", true, ""}, {"https://" + own + "/end", true, ""}, {"../end", true, ""}, {"/end?signed=1", true, ""},
		{"/end#part", true, ""}, {"/one", true, ""},
		{"/two", false, "redirect"}, {"/ping", false, "redirect"}, {"", false, "redirect"},
		{"/base/start", false, "redirect"},
		{"start", false, "redirect"}, {"http://" + own + "/end", false, "redirect"}, {"http://example.com/", false, "redirect"},
		{"https://a:b@" + own + "/end", false, "redirect"}, {"https://a@example.com/", false, "redirect"},
		{"https://localhost:" + r.port + "/end", false, "redirect"}, {"https://127.0.0.1:22/", false, "redirect"},
		{"https://example.com:8443/", false, "redirect"}, {"file:///etc/passwd", false, "redirect"},
		{"gopher://127.0.0.1/", false, "redirect"}, {"javascript:alert(1)", false, "redirect"},
		{"https://0x7f.1/", false, "redirect"}, {"https://2130706433/", false, "redirect"}, {"//127.1/", false, "redirect"},
		{"https://[::ffff:127.0.0.1]/", false, "-"}, {"https://0.0.0.0/", false, "address"},
		{"https://224.0.0.1/", false, "address"}, {"https://[ff02::1]/", false, "address"}, {"https:///", false, "redirect"},
		{"/" + strings.Repeat("a", maxLocation), false, "redirect"}, {"%zz://", false, "redirect"},
	} {
		location = c.to
		body, _, err := r.get(t, "start")
		switch {
		case c.ok && (err != nil || body != "end"):
			t.Errorf("to %q: %q, %v, %v", c.to, body, err, Cause(err))
		case !c.ok && c.detail == "-":
			if err == nil {
				t.Errorf("to %q: no error", c.to)
			}
		case !c.ok:
			want(t, "to "+c.to, err, status.NotAllowed, c.detail)
		}
	}
}

// TestRedirectToPrivate: a public origin cannot lead into the network of the node.
func TestRedirectToPrivate(t *testing.T) {
	t.Parallel()
	from, err := http.NewRequest(http.MethodGet, "https://cdn.example/a/b", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"https://127.0.0.1/", "https://10.0.0.1/", "https://[::1]/", "https://169.254.169.254/"} {
		u, err := redirectTarget(&http.Response{Header: http.Header{"Location": {to}}}, from.URL, from.URL)
		if err != nil {
			t.Fatal(to, err) // the dialer decides
		}
		tr := newTransport(false, nil, Deps{Resolver: neverAsk(t)}, quick())
		resp, err := tr.RoundTrip((&Client{}).request(t.Context(), u, Request{}))
		if err == nil {
			t.Error(to, "was reached", resp.Body.Close())
		}
		f := (&Client{}).explain(t.Context(), err)
		want(t, to, f, status.NotAllowed, "address")
		tr.CloseIdleConnections()
	}
	http2 := http.Header{"Location": {"/a", "/b"}}
	if _, err := redirectTarget(&http.Response{Header: http2}, from.URL, from.URL); err == nil {
		t.Error("a redirect with two targets")
	}
}
