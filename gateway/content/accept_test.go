package content

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"allium/gateway/content/pages"
	"allium/protocols/bao"
)

// FuzzAccept: what is negotiated depends neither on letter case nor on how a
// list is spread over lines, and the encoding is never sent to who has not
// named it.
func FuzzAccept(f *testing.F) {
	for _, v := range []string{
		bao.MediaType, bao.MediaType + ", */*", "*/*;q=0.5, " + bao.MediaType + ";q=0.4", "application/json",
		"text/html, application/json",
	} {
		f.Add(v, 3)
	}
	f.Add(`text/html;q="0,5", `+bao.MediaType, 1)
	f.Fuzz(func(t *testing.T, accept string, at int) {
		decide := func(lines ...string) string {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			r.Header["Accept"] = lines
			wants, negotiated, err := wantsBao(r)
			q, listErr := pages.ParseQuery(r)
			listing := q.Format
			if err != nil || listErr != nil || wants != negotiated || listing != "" && listing != "json" {
				t.Fatalf("%q: %t %t %v, %q %v", lines, wants, negotiated, err, listing, listErr)
			}
			if wants && !strings.Contains(strings.ToLower(strings.Join(lines, ",")), bao.MediaType) {
				t.Fatalf("%q: nobody asked for the encoding", lines)
			}
			if wants {
				return "bao " + listing
			}
			return listing
		}
		whole := decide(accept)
		for _, c := range []byte(accept) {
			if c >= 0x80 {
				return // letters that are not ASCII have other rules
			}
		}
		if got := decide(strings.ToUpper(accept)); got != whole {
			t.Errorf("%q: %q, in capitals %q", accept, whole, got)
		}
		if parts := strings.Split(accept, ","); len(parts) > 1 {
			at = 1 + int(uint(at)%uint(len(parts)-1))
			if got := decide(strings.Join(parts[:at], ","), strings.Join(parts[at:], ",")); got != whole {
				t.Errorf("%q: %q, in two lines %q", accept, whole, got)
			}
		}
	})
}
