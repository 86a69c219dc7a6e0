package exchange

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestAcceptsCoding reads the codings that clients send.
func TestAcceptsCoding(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{
		"gzip": true, "br, GZIP;q=0.5": true, "*": true, "br, *;q=0.1": true,
		"": false, "br": false, "gzip;q=0": false, "*, gzip;q=0": false, "*;q=0": false, "identity": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", header)
		if got := AcceptsCoding(r, "gzip"); got != want {
			t.Errorf("%q: %t", header, got)
		}
	}
}
