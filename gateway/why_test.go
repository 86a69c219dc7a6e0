package gateway

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	"allium/gateway/api"
)

// TestWhyPage: the page has what the verb has, and takes nothing but the ID of a lookup.
func TestWhyPage(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Admin
	a, verb := do(t, "GET", base+"/why/00000000000000a1"), do(t, "GET", base+"/api/v1/why?key=00000000000000a1")
	var got api.Why
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || !reflect.DeepEqual(got, fakeLookup) {
		t.Errorf("got %+v, %v", got, err)
	}
	if a.body != verb.body || a.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the page is %s, the verb says %s", a.body, verb.body)
	}
	for path, want := range map[string]int{
		"/why/": http.StatusBadRequest, "/why/00000000000000A1": http.StatusBadRequest,
		"/why/00000000000000a1/": http.StatusBadRequest, "/why/" + fakeRoot.String(): http.StatusBadRequest,
		"/why": http.StatusNotFound,
	} {
		if a := do(t, "GET", base+path); a.StatusCode != want {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	if a := do(t, "GET", n.Addrs().Gateway+"/why/00000000000000a1"); a.StatusCode != http.StatusNotFound {
		t.Errorf("the public listener shows lookups: %s", a.Status)
	}
}
