package gateway

import (
	"context"
	"net/http"

	"allium/gateway/client"
	"allium/protocols/capability"
)

// verb is one entry of the local API.
type verb struct {
	method string
	params []param       // what the query may hold
	op     capability.Op // what the client must be allowed to do; a query needs nothing
	body   bool          // a tar, addresses or JSON follow
	serve  verbHandler
}

type verbHandler func(g *Gateway, w *response, r *http.Request, q params) error

// The parameters that several verbs have.
var (
	keyParam   = param{"key", someText}
	labelParam = param{"label", anyText}
	peerParam  = param{"peer", someText}
)

// verbs is the local API (SPEC §11); what they do is said at [client.Node].
var verbs = map[string]verb{
	"add":   {method: http.MethodPost, op: capability.Put, params: []param{{"no_pin", boolean}, labelParam}, body: true, serve: (*Gateway).apiAdd},
	"get":   {method: http.MethodGet, params: []param{keyParam}, serve: (*Gateway).apiGet},
	"cat":   {method: http.MethodGet, params: []param{keyParam, {"start", integer}, {"end", integer}}, serve: (*Gateway).apiCat},
	"fetch": {method: http.MethodPost, op: capability.Fetch, params: []param{keyParam}, serve: (*Gateway).apiFetch},
	"ls": {method: http.MethodGet, params: []param{keyParam}, serve: func(g *Gateway, w *response, r *http.Request, q params) error {
		return sendSeq(w, r, batched, g.deps.Node.List(r.Context(), q.text("key")))
	}},
	"diff": {method: http.MethodGet, params: []param{{"from", anyText}, {"to", anyText}}, serve: func(g *Gateway, w *response, r *http.Request, q params) error {
		return sendSeq(w, r, batched, g.deps.Node.Diff(r.Context(), q.text("from"), q.text("to")))
	}},
	"keep":  {method: http.MethodPost, op: capability.Put, body: true, serve: (*Gateway).apiKeep},
	"files": {method: http.MethodPost, op: capability.Fetch, body: true, serve: (*Gateway).apiFiles},
	"stat": {method: http.MethodGet, params: []param{keyParam}, serve: serveValue(func(ctx context.Context, n Node, q params) (client.Stat, error) {
		return n.Stat(ctx, q.text("key"))
	})},
	"store": {method: http.MethodGet, serve: serveValue(func(ctx context.Context, n Node, _ params) (client.StoreStat, error) {
		return n.StatStore(ctx)
	})},
	"verify": {method: http.MethodPost, op: capability.Repair, params: []param{{"key", anyText}, {"repair", boolean}}, serve: func(g *Gateway, w *response, r *http.Request, q params) error {
		return sendSeq(w, r, live, g.deps.Node.Verify(r.Context(), q.text("key"), client.VerifyOptions{Repair: q.flag("repair")}))
	}},
	"pin/add": {method: http.MethodPost, op: capability.Pin, params: []param{keyParam, {"recursive", boolean}, labelParam}, serve: serveValue(func(ctx context.Context, n Node, q params) (client.Pin, error) {
		return n.Pin(ctx, q.text("key"), client.PinOptions{Recursive: q.flag("recursive"), Label: q.text("label")})
	})},
	"pin/rm": {method: http.MethodPost, op: capability.Unpin, params: []param{keyParam, labelParam}, serve: serveAction(func(ctx context.Context, n Node, q params) error {
		return n.Unpin(ctx, q.text("key"), q.text("label"))
	})},
	"gc/run": {method: http.MethodPost, op: capability.GC, params: []param{{"all", boolean}, {"dry", boolean}, {"fast", boolean}, {"list", boolean}}, serve: (*Gateway).apiGC},
	"gc/why": {method: http.MethodGet, params: []param{keyParam}, serve: serveValue(func(ctx context.Context, n Node, q params) (client.GCWhy, error) {
		return n.GCWhy(ctx, q.text("key"))
	})},
	"pin/ls": {method: http.MethodGet, serve: func(g *Gateway, w *response, r *http.Request, _ params) error {
		return sendSeq(w, r, batched, g.deps.Node.Pins(r.Context()))
	}},
	"providers": {method: http.MethodGet, params: []param{keyParam, {"limit", integer}, {"fresh", boolean}, {"trace", boolean}}, serve: (*Gateway).apiProviders},
	"announce": {method: http.MethodPost, op: capability.Announce, params: []param{keyParam}, serve: serveValue(func(ctx context.Context, n Node, q params) (client.Announced, error) {
		return n.Announce(ctx, q.text("key"))
	})},
	"id": {method: http.MethodGet, serve: serveValue(func(ctx context.Context, n Node, _ params) (client.ID, error) { return n.ID(ctx) })},
	"peers": {method: http.MethodGet, serve: serveValue(func(ctx context.Context, n Node, _ params) ([]client.Peer, error) {
		peers, err := n.Peers(ctx)
		return append([]client.Peer{}, peers...), err // [] and not null
	})},
	"seeds": {method: http.MethodGet, serve: serveValue(func(ctx context.Context, n Node, _ params) (client.Seeds, error) {
		s, err := n.Seeds(ctx)
		s.Seeds = append([]client.Seed{}, s.Seeds...) // [] and not null
		return s, err
	})},
	"connect": {method: http.MethodPost, op: capability.Connect, params: []param{{"addr", someText}}, serve: serveValue(func(ctx context.Context, n Node, q params) (client.Peer, error) {
		return n.Connect(ctx, q.text("addr"))
	})},
	"disconnect": {method: http.MethodPost, op: capability.Connect, params: []param{peerParam}, serve: serveAction(func(ctx context.Context, n Node, q params) error {
		return n.Disconnect(ctx, q.text("peer"))
	})},
	"ping": {method: http.MethodPost, op: capability.Connect, params: []param{peerParam}, serve: serveValue(func(ctx context.Context, n Node, q params) (client.Pong, error) {
		return n.Ping(ctx, q.text("peer"))
	})},
	"faults": {method: http.MethodGet, serve: serveValue(func(ctx context.Context, n Node, _ params) (client.Faults, error) {
		return n.Faults(ctx)
	})},
	"faults/set": {method: http.MethodPost, op: capability.Faults, body: true, serve: (*Gateway).apiSetFaults},
	"drain":      {method: http.MethodPost, op: capability.Drain, serve: serveAction(func(ctx context.Context, n Node, _ params) error { return n.Drain(ctx) })},
}

// apiRoute finds a verb.
func (g *Gateway) apiRoute(name string) route {
	v, ok := verbs[name]
	if !ok {
		return route{}
	}
	return route{name: "api/" + name, methods: []string{v.method}, streams: v.body, op: v.op, serve: func(w *response, r *http.Request) error {
		q, err := parseParams(r.URL.RawQuery, v.params)
		if err != nil {
			return err
		}
		return v.serve(g, w, r, q)
	}}
}

// serveValue serves a verb that answers with one JSON value.
func serveValue[T any](call func(context.Context, Node, params) (T, error)) verbHandler {
	return func(g *Gateway, w *response, r *http.Request, q params) error {
		v, err := call(r.Context(), g.deps.Node, q)
		if err != nil {
			return causeOf(r.Context(), err)
		}
		return sendJSON(w, r, http.StatusOK, v)
	}
}

// serveAction serves a verb that has nothing to answer but {}.
func serveAction(call func(context.Context, Node, params) error) verbHandler {
	return serveValue(func(ctx context.Context, n Node, q params) (struct{}, error) { return struct{}{}, call(ctx, n, q) })
}
