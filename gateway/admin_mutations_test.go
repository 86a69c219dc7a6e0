package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestAdminMutations: each calls the node as the local API does.
func TestAdminMutations(t *testing.T) {
	t.Parallel()
	n := start(t)
	ctx := t.Context()
	const key = "b3:x/é"
	for _, token := range []string{"", "may-pin,unpin,announce,repair,gc,reload,drain"} {
		target := n.socket
		if token != "" {
			target = n.Addrs().Admin
		}
		c, err := client.NewWith(target, client.Options{Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		a := c.Admin("")
		for _, v := range []struct {
			heard string
			want  any
			call  func() (any, error)
		}{
			{"pin " + key + " {Recursive:true Label:y}", fakePin, func() (any, error) {
				return first(a.Pin(ctx, api.PinRequest{Key: key, Recursive: true, Label: "y"}))
			}},
			{"pin " + key + " {Recursive:false Label:} rf 3", fakePin, func() (any, error) {
				return first(a.Pin(ctx, api.PinRequest{Key: key, Target: &api.Target{RF: 3}}))
			}},
			{"unpin " + key + " y", nil, func() (any, error) {
				return nil, a.Unpin(ctx, api.UnpinRequest{Key: key, Label: "y"})
			}},
			{"announce " + key, api.Reindexed{Objects: 1}, func() (any, error) {
				return first(a.Reindex(ctx, api.ReindexRequest{Key: key}))
			}},
			{"announce " + fakeRoot.String(), api.Reindexed{Objects: 1}, func() (any, error) {
				return first(a.Reindex(ctx, api.ReindexRequest{}))
			}},
			{"verify ", api.Repaired{Objects: 2, Bytes: 11, Bad: 1, Roots: []b3.Root{fakeRoot}}, func() (any, error) {
				return first(a.Repair(ctx, api.RepairRequest{}))
			}},
			{"gc {All:true Dry:true Fast:true List:false}", fakeGC, func() (any, error) {
				return first(a.GC(ctx, api.GCRequest{All: true, Dry: true, Fast: true}))
			}},
			{"reload {DryRun:true}", fakeReloaded, func() (any, error) {
				return first(c.Reload(ctx, api.ReloadRequest{DryRun: true}))
			}},
			{"reload status 5f0c", fakeReloaded, func() (any, error) { return first(c.ReloadStatus(ctx, "5f0c")) }},
			{"configuration", fakeConfiguration, func() (any, error) { return first(c.Configuration(ctx)) }},
			{"drain", nil, func() (any, error) { return nil, a.Drain(ctx) }},
		} {
			got, err := v.call()
			if err != nil || !reflect.DeepEqual(got, v.want) {
				t.Errorf("%s: %+v (%v), want %+v", v.heard, got, err, v.want)
			}
			if calls := n.node.calls(); calls[len(calls)-1] != v.heard {
				t.Errorf("heard %q, want %q", calls[len(calls)-1], v.heard)
			}
		}
	}
	if err := fakeReloaded.Failed(); status.Of(err) != status.BadRequest {
		t.Errorf("%v", err)
	}
}

// TestAdminBodies: what is no JSON of the request's own members is refused
// before the node is asked; no body is none of them.
func TestAdminBodies(t *testing.T) {
	t.Parallel()
	n := start(t)
	page := n.Addrs().Admin + "/admin/pin"
	for name, c := range map[string]struct {
		body, header, value string
		want                status.Outcome
	}{
		"an unknown member":  {`{"key":"x","keys":"y"}`, "", "", status.BadRequest},
		"another case":       {`{"Key":"x"}`, "", "", status.BadRequest},
		"a folded case":      {`{"\u212aey":"x"}`, "", "", status.BadRequest},
		"a member twice":     {`{"key":"y","key":"x"}`, "", "", status.BadRequest},
		"one in two cases":   {`{"key":"y","KEY":"x"}`, "", "", status.BadRequest},
		"one escaped":        {`{"key":"y","\u006bey":"x"}`, "", "", status.BadRequest},
		"another type":       {`{"key":7}`, "", "", status.BadRequest},
		"not UTF-8":          {"{\"key\":\"x\",\"label\":\"\xff\"}", "", "", status.BadRequest},
		"null":               {`null`, "", "", status.BadRequest},
		"two values":         {`{"key":"x"}{}`, "", "", status.BadRequest},
		"half a value":       {`{"key":"x"`, "", "", status.BadRequest},
		"a list":             {`[]`, "", "", status.BadRequest},
		"another media type": {`key=x`, "Content-Type", "application/x-www-form-urlencoded", status.Unsupported},
		"an encoding":        {`{}`, "Content-Encoding", "gzip", status.Unsupported},
		"an empty key":       {`{}`, "Idempotency-Key", "", status.BadRequest},
		"a long key":         {`{}`, "Idempotency-Key", strings.Repeat("k", 256), status.BadRequest},
		"a key with a space": {`{}`, "Idempotency-Key", "a b", status.BadRequest},
		"a key not ASCII":    {`{}`, "Idempotency-Key", "é", status.BadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			headers := []string{"Authorization", "Bearer may-pin"}
			if c.header != "" {
				headers = append(headers, c.header, c.value)
			}
			post(t, page, c.body, headers...).problem(t, c.want)
		})
	}
	t.Cleanup(func() {
		if got := n.node.calls(); len(got) != 0 {
			t.Errorf("the node was asked to %v", got)
		}
	})
}

// TestAdminLongestBody: exactly as much as is read passes, and not a byte more,
// whether it is announced or not. Without a socket: a client that still sends
// when it is refused may see its connection reset before the answer.
func TestAdminLongestBody(t *testing.T) {
	t.Parallel()
	n := start(t)
	whole := `{"key":"x"}` + strings.Repeat(" ", int(DefaultConfig().Bodies.BodyBytes)-len(`{"key":"x"}`))
	for body, want := range map[string]int{whole: http.StatusOK, whole + " ": http.StatusRequestEntityTooLarge} {
		for _, known := range []bool{true, false} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/admin/pin", strings.NewReader(body))
			if !known {
				r.ContentLength = -1
			}
			rec := httptest.NewRecorder()
			n.Handler(server.Socket).ServeHTTP(rec, r)
			if rec.Code != want {
				t.Errorf("%d bytes, announced %t: %d %s", len(body), known, rec.Code, rec.Body)
			}
		}
	}
}

// TestIdempotencyKey: over HTTP the first answer comes again, errors too.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	n := start(t)
	ask := func(page, body, key string) answer {
		return post(t, n.Addrs().Admin+page, body, "Authorization",
			"Bearer may-pin,unpin,drain", "Idempotency-Key", key)
	}
	first, again := ask("/admin/pin", `{"key":"x"}`, "k"), ask("/admin/pin", `{"key":"x"}`, "k")
	if first.StatusCode != http.StatusOK || again.body != first.body || first.Header.Get("Idempotent-Replayed") != "" ||
		again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%s %q %v, then %s %q %v", first.Status, first.body, first.Header,
			again.Status, again.body, again.Header)
	}
	ask("/admin/pin", `{"key":"y"}`, "k").problem(t, status.Conflict)
	ask("/admin/unpin", `{"key":"x"}`, "k").problem(t, status.Conflict)
	if got := n.node.calls(); len(got) != 1 {
		t.Errorf("the node was asked to %v", got)
	}
	ask("/admin/pin", `{"key":"fail"}`, "busy").problem(t, status.Busy)
	if a := ask("/admin/pin", `{"key":"fail"}`, "busy"); a.Header.Get("Idempotent-Replayed") != "" {
		t.Error("busy was kept")
	}
	n.node.pin.set(func(context.Context, string) (api.Pin, error) {
		return api.Pin{}, status.Errorf(status.BadAddress, "no address")
	})
	ask("/admin/pin", `{"key":"z"}`, "bad").problem(t, status.BadAddress)
	a := ask("/admin/pin", `{"key":"z"}`, "bad")
	a.problem(t, status.BadAddress)
	if a.Header.Get("Idempotent-Replayed") != "true" {
		t.Error("a lasting error was not kept")
	}
}

// post sends a body; headers come as name, value pairs.
func post(t testing.TB, url, body string, headers ...string) answer {
	t.Helper()
	return doBody(t, http.MethodPost, url, strings.NewReader(body), headers...)
}
