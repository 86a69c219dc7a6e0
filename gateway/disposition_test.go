package gateway

import (
	"mime"
	"net/url"
	"testing"
)

// TestDispositionNames: what a directory calls a file, however odd, is what a
// download is called (RFC 8187 §3.2.1).
func TestDispositionNames(t *testing.T) {
	t.Parallel()
	n := start(t)
	names := []string{"a=b;c.pdf", "a:b@c.pdf", `q"u'o%te*(1).pdf`, "été+ 1.pdf", "\u202efdp.pdf", "x\r\ny.pdf"}
	files := map[string]string{}
	for _, name := range names {
		files[name] = "%PDF-1.7"
	}
	dir := n.Addrs().Gateway + "/b3/" + n.objects.tree(t, files).String() + "/"
	for _, name := range names {
		a := do(t, "GET", dir+url.PathEscape(name))
		how, params, err := mime.ParseMediaType(a.Header.Get("Content-Disposition"))
		if err != nil || how != "inline" || params["filename"] != name {
			t.Errorf("%q: %s, %q: %q, %v", name, a.Status, a.Header.Get("Content-Disposition"), params["filename"], err)
		}
	}
}
