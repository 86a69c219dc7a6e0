package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/protocols/status"
)

// TestArrays: a client that prefers JSON gets the items of an answer in lines as an array, and the result of
// one without items as a value. What fails before the first item is a problem; what fails later is cut, and
// no JSON.
func TestArrays(t *testing.T) {
	t.Parallel()
	n := start(t)
	base := n.Addrs().Admin + "/api/v1/"
	want := map[string]string{}
	for verb, v := range map[string]any{"pin/ls": []api.Pin{fakePin}, "fetch?key=x": fakeFetched} {
		p, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		want[verb] = string(p) + "\n"
	}
	method := map[string]string{"fetch?key=x": "POST"}
	for verb, want := range want {
		m := method[verb]
		if m == "" {
			m = "GET"
		}
		for accept, lines := range map[string]bool{
			"application/json": false, "application/json, application/x-ndjson;q=0.5": false, "*/*": true, "": true,
			"application/json, application/x-ndjson": true,
		} {
			a := doBody(t, m, base+verb, nil, "Accept", accept, "Authorization", "Bearer may-fetch")
			media := "application/json"
			if lines {
				media = "application/x-ndjson"
			}
			if a.err != nil || a.Header.Get("Content-Type") != media || (a.body == want) == lines {
				t.Errorf("%s, %q: %s %v %s", verb, accept, a.Status, a.Header, a.body)
			}
		}
	}
	n.node.fetch.set(func(context.Context, string, api.ProgressFunc) (api.Fetched, error) {
		return api.Fetched{}, status.Errorf(status.NotFound, "nobody has it")
	})
	json := []string{"Accept", "application/json", "Authorization", "Bearer may-fetch"}
	doBody(t, "POST", base+"fetch?key=x", nil, json...).problem(t, status.NotFound)

	n.node.listed.set(func(yield func(api.Entry, error) bool) {
		for range 10_000 { // more than the buffers hold
			if !yield(api.Entry{Name: "a"}, nil) {
				return
			}
		}
		yield(api.Entry{}, status.Errorf(status.Corrupt, "the rest is damaged"))
	})
	a := doBody(t, "GET", base+"ls?key=x", nil, json...)
	if a.err == nil || !strings.HasPrefix(a.body, `[{"name":"a"`) || strings.Contains(a.body, "]") {
		t.Errorf("an array that fails half-way: %v %s", a.err, a.body)
	}
	n.node.listed.set(func(func(api.Entry, error) bool) {})
	if a := doBody(t, "GET", base+"ls?key=x", nil, json...); a.err != nil || a.body != "[]\n" {
		t.Errorf("nothing: %v %q", a.err, a.body)
	}
}
