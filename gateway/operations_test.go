package gateway

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/api/client"
	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/fill"
	"allium/gateway/openapi"
	"allium/gateway/verified"
	"allium/gateway/weblink"
	"allium/protocols/b3"
)

// TestEveryOperation asks each operation of the document once so that it
// succeeds, with the parameters that a generated client has to send and no other, and
// so that it is refused: without each of those, and with another body. That all are as
// described is judged where the node answers. An operation that this test cannot make
// succeed fails it.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	names := &fakeNames{named: map[string]content.Named{}, asked: map[string]int{}}
	site := newEdge(t, map[string]fill.Source{"site": {Key: "blog.alice", RequireETag: fill.ETagStrict}}, nil)
	n := startWith(t, hooks{deps: func(d *Deps) {
		d.Names, d.Edge = names, Edge{Fills: site.service, Packs: packSet(t, d.Env)}
	}})
	root := n.objects.put([]byte("there"))
	names.named["blog.alice"] = content.Named{Root: n.objects.tree(t, map[string]string{"a": "a"}), TTL: time.Minute}
	n.index.known = map[b3.Root]api.Resolved{root: resolvedBy(root, "cache", "a")}
	document, err := openapi.New(routes(), exchange.OnEvery)
	if err != nil {
		t.Fatal(err)
	}
	put := []byte("to be put")
	upload := "" // the path of the one that the operations of uploads work on, in the order of the table
	for _, e := range routes() {
		if e.On == exchange.OnSites {
			continue // has no path of the document: TestOrigins
		}
		if e.ID == "GetFile" || e.ID == "AddFile" {
			continue // needs a descriptor on the Unix socket: node.TestWriteFile, node.TestAddFile
		}
		for _, method := range e.Methods {
			base, path := n.Addrs().Admin, e.Path
			if e.On&exchange.OnAdmin == 0 {
				base = n.Addrs().Gateway
			}
			query, send, headers := url.Values{}, "", []string{"Content-Type", "application/json", "TE", "trailers"}
			for _, p := range document.Paths[e.Path][strings.ToLower(method)].Parameters {
				if p.In == "query" && p.Required {
					query.Set(p.Name, "x")
				}
			}
			if e.Op != "" {
				headers = append(headers, "Authorization", "Bearer may-pin,"+string(e.Op))
			}
			switch e.ID {
			case "open", "openSlash":
				query.Set("key", root.String())
			case "Diff":
				query.Set("from", "x") // this or to, which the document cannot say
			case "getObject", "browse", "resolveKey", "providers", "verifyPage":
				path, _, _ = strings.Cut(path, "{")
				path += root.String()
			case "getPack":
				path = "/edge/packs/raster.json"
			case "consoleAsset":
				path = consoleScript(t, n)
			case "mapAsset":
				path = mapAsset(t, n)
			case "verifyAsset":
				path = proofScript(t, n)
			case "link":
				path = strings.TrimPrefix(n.link(t, weblink.Options{Root: root, File: true, Name: "x", Size: 5}).public, base)
			case "browseName":
				path = "/n/blog.alice/"
			case "getAsset":
				path = "/edge/assets/site/a"
			case "getTrace":
				path = "/why/00000000000000a1"
			case "putObject":
				path, send = "/o/"+b3.Sum(put).String(), string(put)
			case "postObject":
				send = "posted"
			case "postTree":
				send, headers[1] = "a tar", exchange.MediaTar
			case "beginUpload":
				headers = append(headers, "Upload-Length", "5")
			case "optionsUpload", "uploadState", "removeUpload":
				path = upload
			case "continueUpload":
				path, send, headers = upload, "hel", append(headers, "Upload-Offset", "0")
				headers[1] = "application/offset+octet-stream"
			case "Profile":
				query.Set("kind", "goroutine")
			case "SetFaults":
				send = "{}"
			case "Events":
				headers = append(headers, "Request-Timeout", "0.01") // a stream of events has no other end
			case "Keep", "Files":
				send = string(root[:])
			}
			to := func(query url.Values) string {
				return base + path + strings.TrimSuffix("?"+query.Encode(), "?")
			}
			a := doBody(t, method, to(query), strings.NewReader(send), headers...)
			if a.StatusCode >= http.StatusBadRequest {
				t.Errorf("%s %s: %s %s", method, e.ID, a.Status, a.body)
			}
			if e.ID == "beginUpload" {
				upload = a.Header.Get("Location")
			}
			for name := range query {
				less := maps.Clone(query)
				delete(less, name)
				a := doBody(t, method, to(less), strings.NewReader(send), headers...)
				if a.StatusCode < http.StatusBadRequest {
					t.Errorf("%s %s without %s, which the document requires: %s", method, e.ID, name, a.Status)
				}
			}
			// No capability, or a body where none is taken.
			refused := doBody(t, method, to(query), strings.NewReader("unwanted"))
			if refused.StatusCode < http.StatusBadRequest || refused.Header.Get("X-Reason") == "" {
				t.Errorf("%s %s, to be refused: %s", method, e.ID, refused.Status)
			}
		}
	}
}

// TestClientCovers: package client has a method for every operation that is not
// for browsers, and no operation of the API is missing here.
func TestClientCovers(t *testing.T) {
	t.Parallel()
	node, admin, gateway := reflect.TypeFor[*client.Client](), reflect.TypeFor[api.Admin](),
		reflect.TypeFor[*verified.Gateway]()
	type method struct {
		Of   reflect.Type
		name string
	}
	elsewhere := map[string]method{
		"version": {node, "Version"}, "apiVersion": {node, "Version"}, "limits": {node, "Limits"},
		"apiLimits": {node, "Limits"}, "getTrace": {node, "Why"}, "resolveKey": {node, "Resolve"},
		"providers": {node, "FindProviders"}, "GetFile": {node, "Get"}, // WriteFile of its stream
		"AddFile":   {node, "Add"},
		"getObject": {gateway, "Get"}, "getObjectHead": {gateway, "Stat"}, "putObject": {gateway, "Put"},
		"postObject": {gateway, "Put"}, "postTree": {gateway, "PutTree"},
		"beginUpload": {gateway, "Upload"}, "uploadState": {gateway, "Upload"}, "continueUpload": {gateway, "Upload"},
	}
	// Of these a program needs nothing that is not elsewhere, or has other clients:
	// browsers, probes, Prometheus.
	others := []string{
		"landing", "favicon", "verifyModule", "verifyPage", "verifyAsset", "open", "openSlash", "uploadPage", "browse",
		"link", "browseName", "getAsset", "getPack", "mapAsset", "console", "consoleAsset", "consoleSlash", "healthz",
		"readyz",
		"metrics", "openapi", "Profile",
		"optionsUploads", "optionsUpload", "removeUpload",
	}
	d, err := openapi.New(routes(), exchange.OnEvery)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for path, methods := range d.Paths {
		for _, op := range methods {
			known[op.ID] = true
			m, ok := elsewhere[op.ID]
			plain := strings.TrimSuffix(op.ID, "Head")
			switch {
			case ok:
			case slices.Contains(others, plain):
				continue
			case elsewhere[plain].Of != nil:
				m = elsewhere[plain]
			case strings.HasPrefix(op.ID, "Admin"):
				m = method{admin, strings.TrimPrefix(op.ID, "Admin")}
			default:
				m = method{node, op.ID}
			}
			if _, ok := m.Of.MethodByName(m.name); !ok {
				t.Errorf("%s %s: %s has no method %s", op.ID, path, m.Of, m.name)
			}
		}
	}
	for id := range maps.Keys(elsewhere) {
		if !known[id] {
			t.Errorf("%s is no operation any more", id)
		}
	}
	for _, id := range others {
		if !known[id] {
			t.Errorf("%s is no operation any more", id)
		}
	}
}
