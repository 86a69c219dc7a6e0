package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// TestTable: what the router and the documents take for granted of the table.
func TestTable(t *testing.T) {
	t.Parallel()
	ids, names := map[string]bool{}, map[string]string{}
	type place struct{ method, path string }
	taken := map[place]exchange.Listeners{}
	for _, e := range routes() {
		if e.ID == "" || ids[e.ID] {
			t.Errorf("%s: the id %q is empty or not the only one", e.Path, e.ID)
		}
		ids[e.ID] = true
		if e.Name == "" || e.Doc == "" || !strings.HasSuffix(e.Doc, ".") || e.Serve == nil || e.On == 0 ||
			len(e.Methods) == 0 || len(e.Answers) == 0 {
			t.Errorf("%s: something is missing of its line", e.ID)
		}
		if i := strings.IndexByte(e.Path, '{'); i >= 0 && (!strings.HasSuffix(e.Path, "}") || e.Path[i-1] != '/') {
			t.Errorf("%s: {…} is not the end of %s", e.ID, e.Path)
		}
		if old, ok := names[e.Path]; ok && old != e.Name {
			t.Errorf("%s is called %s and %s", e.Path, old, e.Name)
		}
		names[e.Path] = e.Name
		for _, m := range e.Methods {
			if taken[place{m, e.Path}]&e.On != 0 {
				t.Errorf("%s %s has two lines", m, e.Path)
			}
			taken[place{m, e.Path}] |= e.On
		}
		for _, p := range e.Params {
			if p.Name == "" || p.Doc == "" {
				t.Errorf("%s: the parameter %q has no name or no sentence", e.ID, p.Name)
			}
		}
	}
}

// TestOptions: every path says what it has, waiting for nothing, and a path
// that is not there says so.
func TestOptions(t *testing.T) {
	t.Parallel()
	n := start(t)
	for _, e := range routes() {
		if slices.Contains(e.Methods, http.MethodOptions) {
			continue // it has an answer of its own
		}
		for on, base := range map[exchange.Listeners]string{
			exchange.OnPublic: n.Addrs().Gateway, exchange.OnAdmin: n.Addrs().Admin,
		} {
			path, _, _ := strings.Cut(e.Path, "{")
			a := do(t, "OPTIONS", base+path)
			if e.On&on == 0 {
				continue // another page may be there
			}
			allow := strings.Split(a.Header.Get("Allow"), ", ")
			if a.StatusCode != http.StatusNoContent || a.body != "" || !slices.Contains(allow, "OPTIONS") {
				t.Errorf("%s: %s %q %s", e.ID, a.Status, a.body, allow)
			}
			for _, m := range e.Methods {
				if !slices.Contains(allow, m) {
					t.Errorf("%s: %s is not among %s", e.ID, m, allow)
				}
			}
		}
	}
	do(t, "OPTIONS", n.Addrs().Gateway+"/nothing").problem(t, status.NotFound)
	do(t, "OPTIONS", n.Addrs().Admin+"/healthz", "Host", "evil.example").problem(t, status.NotAllowed)
	if a := do(t, "BREW", n.Addrs().Admin+"/api/v1/id"); a.Header.Get("Allow") != "GET, OPTIONS" {
		t.Errorf("%s %v", a.Status, a.Header)
	}
}
