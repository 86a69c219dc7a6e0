package gateway

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"allium/gateway/client"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// apiPath is where the verbs of the local API are.
const apiPath = "/api/v1/"

// The parameters that several verbs have.
var (
	keyParam   = param{name: "key", kind: someText, doc: "b3:… with or without a path below it"}
	labelParam = param{name: "label", doc: "of the pin; none is the one that the capability is bound to, if it is"}
	peerParam  = param{name: "peer", kind: someText, doc: "a peer's id"}

	recursiveParam = flagParam("recursive", "and what it leads to")
)

// flagParam is one that is true or false, false where it is missing.
func flagParam(name, doc string) param { return param{name: name, kind: boolean, doc: doc} }

// apiFails is what a node may answer a verb with: what it is asked for may be
// anywhere, and fail in any way.
var apiFails = slices.DeleteFunc(status.All(), func(o status.Outcome) bool {
	switch o {
	case status.OK, status.Partial, status.NotModified, status.Method, status.BadFrame, status.FrameOversize:
		return true
	}
	return false
})

// apiEndpoints is the local API (SPEC §11); what its verbs do is said at
// [client.Node], and the id of each is the name of its method there.
var apiEndpoints = verbs(
	endpoint{
		id: "Add", path: "add", methods: posting, op: capability.Put,
		doc:     "Stores a tar stream: each entry at its top level is added.",
		params:  []param{flagParam("no_pin", "leave what was added to the cache"), labelParam},
		body:    []payload{{media: mediaTar}},
		answers: lineAnswers[client.Added, struct{}]("what was added, each once it is durable"),
		serve:   labelled((*Gateway).apiAdd),
	},
	endpoint{
		id: "Get", path: "get", methods: getting, params: []param{keyParam},
		doc:     "A file's bytes, or a directory as a tar stream.",
		answers: streamAnswers(mediaBytes, mediaTar), serve: (*Gateway).apiGet,
	},
	endpoint{
		id: "Cat", path: "cat", methods: getting,
		doc:     "A range of a file's bytes.",
		params:  []param{keyParam, {name: "start", kind: integer, doc: "first byte"}, {name: "end", kind: integer, doc: "byte after the last; -1: to its end"}},
		answers: streamAnswers(mediaBytes), serve: (*Gateway).apiCat,
	},
	endpoint{
		id: "Fetch", path: "fetch", methods: posting, op: capability.Fetch, acts: onTree, params: []param{keyParam},
		doc:     "Brings an object, with everything below it, into the store.",
		answers: lineAnswers[struct{}, client.Fetched]("progress, and what was fetched"), serve: (*Gateway).apiFetch,
	},
	endpoint{
		id: "List", path: "ls", methods: getting, params: []param{keyParam},
		doc:     "The entries of a directory in bytewise order of their names.",
		answers: lineAnswers[client.Entry, struct{}]("the entries"),
		serve: func(g *Gateway, w *response, r *http.Request, in input) error {
			return sendSeq(w, r, batched, g.deps.Node.List(r.Context(), in.q.text("key")))
		},
	},
	endpoint{
		id: "Diff", path: "diff", methods: getting,
		doc:     "The entries that are not the same in what two keys name.",
		params:  []param{{name: "from", doc: "a key; empty: nothing"}, {name: "to", doc: "a key; empty: nothing"}},
		answers: lineAnswers[client.Change, struct{}]("the entries that differ"),
		serve: func(g *Gateway, w *response, r *http.Request, in input) error {
			return sendSeq(w, r, batched, g.deps.Node.Diff(r.Context(), in.q.text("from"), in.q.text("to")))
		},
	},
	endpoint{
		id: "Keep", path: "keep", methods: posting, op: capability.Put,
		doc:     "Says which objects the store holds whole, and keeps those as if they were used now.",
		body:    []payload{{media: mediaBytes}},
		more:    rootsDoc,
		answers: value[[]bool]("for each address, in order"), serve: (*Gateway).apiKeep,
	},
	endpoint{
		id: "Files", path: "files", methods: posting, op: capability.Fetch,
		doc:     "Files as one tar stream, in the order asked for and named by their digests.",
		body:    []payload{{media: mediaBytes}},
		more:    rootsDoc,
		answers: streamAnswers(mediaTar), serve: (*Gateway).apiFiles,
	},
	endpoint{
		id: "Stat", path: "stat", methods: getting, own: true, params: []param{keyParam},
		doc:     "Describes an object and what the node has of it.",
		answers: value[client.Stat]("the object"),
		serve: serveValue(func(ctx context.Context, n Node, q params) (client.Stat, error) {
			return n.Stat(ctx, q.text("key"))
		}),
	},
	endpoint{
		id: "StatStore", path: "store", methods: getting,
		doc:     "Says what the store holds, from counters.",
		answers: value[client.StoreStat]("the store"),
		serve: serveValue(func(ctx context.Context, n Node, _ params) (client.StoreStat, error) {
			return n.StatStore(ctx)
		}),
	},
	endpoint{
		id: "Verify", path: "verify", methods: posting, own: true, op: capability.Repair, acts: onTree,
		doc:     "Reads objects again and proves them. A bad one is an item, not an error.",
		params:  []param{{name: "key", doc: "what to verify; empty: every object in the store"}, flagParam("repair", "fetch what is damaged or missing again")},
		answers: lineAnswers[client.Verified, struct{}]("the objects, as they are read"),
		serve: func(g *Gateway, w *response, r *http.Request, in input) error {
			return sendSeq(w, r, live, g.deps.Node.Verify(r.Context(), in.q.text("key"), client.VerifyOptions{Repair: in.q.flag("repair")}))
		},
	},
	endpoint{
		id: "Pin", path: "pin/add", methods: posting, op: capability.Pin, acts: onTree,
		doc:     "Keeps an object.",
		params:  []param{keyParam, recursiveParam, labelParam},
		answers: value[client.Pin]("the pin"),
		serve: labelled(serveValue(func(ctx context.Context, n Node, q params) (client.Pin, error) {
			return n.Pin(ctx, q.text("key"), client.PinOptions{Recursive: q.flag("recursive"), Label: q.text("label")})
		})),
	},
	endpoint{
		id: "Unpin", path: "pin/rm", methods: posting, own: true, op: capability.Unpin,
		doc:     "Removes the pin with that label, or all of the object's pins.",
		params:  []param{keyParam, labelParam},
		answers: value[struct{}]("done"),
		serve: labelled(serveAction(func(ctx context.Context, n Node, q params) error {
			return n.Unpin(ctx, q.text("key"), q.text("label"))
		})),
	},
	endpoint{
		id: "GC", path: "gc/run", methods: posting, op: capability.GC,
		doc:     "Removes objects that nothing holds.",
		params:  []param{flagParam("all", "everything that nothing holds, not only down to the low-water mark"), flagParam("dry", "remove nothing, say what would be"), flagParam("fast", "take no rests"), flagParam("list", "tell each object that is removed")},
		answers: lineAnswers[client.GCObject, client.GCReport]("the objects, if they were asked for, progress, and what was done"),
		serve:   (*Gateway).apiGC,
	},
	endpoint{
		id: "GCWhy", path: "gc/why", methods: getting, own: true, params: []param{keyParam},
		doc:     "Says what keeps an object.",
		answers: value[client.GCWhy]("what holds it"),
		serve: serveValue(func(ctx context.Context, n Node, q params) (client.GCWhy, error) {
			return n.GCWhy(ctx, q.text("key"))
		}),
	},
	endpoint{
		id: "Pins", path: "pin/ls", methods: getting,
		doc:     "The pins by address.",
		answers: lineAnswers[client.Pin, struct{}]("the pins"),
		serve: func(g *Gateway, w *response, r *http.Request, _ input) error {
			return sendSeq(w, r, batched, g.deps.Node.Pins(r.Context()))
		},
	},
	endpoint{
		id: "FindProviders", path: "providers", methods: getting,
		doc:     "Who says to have an object, as they are found.",
		params:  []param{keyParam, {name: "limit", kind: integer, doc: "stop after that many, 1 to 32; 0: the node's default"}, flagParam("fresh", "only what peers answer now"), flagParam("trace", "end with how the lookup went")},
		answers: lineAnswers[client.Provider, struct{}]("the providers"), serve: (*Gateway).apiProviders,
	},
	endpoint{
		id: "Announce", path: "announce", methods: posting, op: capability.Announce, params: []param{keyParam},
		doc:     "Tells the network that this node provides an object.",
		answers: value[client.Announced]("who took the record"),
		serve: serveValue(func(ctx context.Context, n Node, q params) (client.Announced, error) {
			return n.Announce(ctx, q.text("key"))
		}),
	},
	endpoint{
		id: "ID", path: "id", methods: getting,
		doc:     "Who the node is and where it listens.",
		answers: value[client.ID]("the node"),
		serve:   serveValue(func(ctx context.Context, n Node, _ params) (client.ID, error) { return n.ID(ctx) }),
	},
	endpoint{
		id: "Peers", path: "peers", methods: getting,
		doc:     "The connections.",
		answers: value[[]client.Peer]("the connections"),
		serve: serveValue(func(ctx context.Context, n Node, _ params) ([]client.Peer, error) {
			peers, err := n.Peers(ctx)
			return append([]client.Peer{}, peers...), err // [] and not null
		}),
	},
	endpoint{
		id: "Seeds", path: "seeds", methods: getting,
		doc:     "The seeds, and what is known of the network without them.",
		answers: value[client.Seeds]("the seeds"),
		serve: serveValue(func(ctx context.Context, n Node, _ params) (client.Seeds, error) {
			s, err := n.Seeds(ctx)
			s.Seeds = append([]client.Seed{}, s.Seeds...) // [] and not null
			return s, err
		}),
	},
	endpoint{
		id: "Connect", path: "connect", methods: posting, op: capability.Connect,
		doc:     "Dials a peer.",
		params:  []param{{name: "addr", kind: someText, doc: "a multiaddr with /p2p/ID"}},
		answers: value[client.Peer]("the connection"),
		serve: serveValue(func(ctx context.Context, n Node, q params) (client.Peer, error) {
			return n.Connect(ctx, q.text("addr"))
		}),
	},
	endpoint{
		id: "Disconnect", path: "disconnect", methods: posting, op: capability.Connect, params: []param{peerParam},
		doc:     "Closes every connection to a peer.",
		answers: value[struct{}]("done"),
		serve: serveAction(func(ctx context.Context, n Node, q params) error {
			return n.Disconnect(ctx, q.text("peer"))
		}),
	},
	endpoint{
		id: "Ping", path: "ping", methods: posting, op: capability.Connect,
		doc:     "Measures one round trip to a peer.",
		params:  []param{{name: "peer", kind: someText, doc: "a peer's id or multiaddr"}},
		answers: value[client.Pong]("the round trip"),
		serve: serveValue(func(ctx context.Context, n Node, q params) (client.Pong, error) {
			return n.Ping(ctx, q.text("peer"))
		}),
	},
	endpoint{
		id: "Faults", path: "faults", methods: getting,
		doc:     "What a node of a testnet does wrong on purpose.",
		answers: value[client.Faults]("its faults"),
		serve: serveValue(func(ctx context.Context, n Node, _ params) (client.Faults, error) {
			return n.Faults(ctx)
		}),
	},
	endpoint{
		id: "SetFaults", path: "faults/set", methods: posting, op: capability.Faults,
		doc:     "Replaces what a node of a testnet does wrong on purpose, all of it.",
		body:    []payload{jsonBody[client.Faults]()},
		answers: value[client.Faults]("what holds now"), serve: (*Gateway).apiSetFaults,
	},
	endpoint{
		id: "Drain", path: "drain", methods: posting, op: capability.Drain,
		doc:     "Begins the orderly shutdown of the node.",
		answers: value[struct{}]("it has begun"),
		serve:   serveAction(func(ctx context.Context, n Node, _ params) error { return n.Drain(ctx) }),
	},
)

// rootsDoc says what the body of Keep and Files is.
const rootsDoc = "The body is 1 to 4,096 digests, 32 bytes each."

// verbs completes the lines of the local API.
func verbs(table ...endpoint) []endpoint {
	for i := range table {
		e := &table[i]
		e.name, e.path, e.on, e.fails = "api/"+e.path, apiPath+e.path, onAdmin, apiFails
	}
	return table
}

// lineAnswers is the answers of a verb that sends items.
func lineAnswers[Item, Last any](doc string) []reply {
	return []reply{{code: http.StatusOK, payload: linesBody[Item, Last](), headers: []string{"Cache-Control"}, doc: doc}}
}

// streamAnswers is the answers of a verb that sends bytes.
func streamAnswers(media ...string) []reply {
	var all []reply
	for _, m := range media {
		all = append(all, reply{code: http.StatusOK, payload: payload{media: m}, headers: []string{"Cache-Control", "Trailer", client.HeaderObject}, doc: "the bytes, and at their end the trailer " + client.HeaderStatus})
	}
	return all
}

// labelled serves a verb with the label that its pin gets.
func labelled(serve handler) handler {
	return func(g *Gateway, w *response, r *http.Request, in input) error {
		url.Values(in.q).Set(labelParam.name, w.label(in.q.text(labelParam.name)))
		return serve(g, w, r, in)
	}
}

// serveValue serves a verb that answers with one JSON value.
func serveValue[T any](call func(context.Context, Node, params) (T, error)) handler {
	return func(g *Gateway, w *response, r *http.Request, in input) error {
		v, err := call(r.Context(), g.deps.Node, in.q)
		if err != nil {
			return causeOf(r.Context(), err)
		}
		return sendJSON(w, r, http.StatusOK, v)
	}
}

// serveAction serves a verb that has nothing to answer but {}.
func serveAction(call func(context.Context, Node, params) error) handler {
	return serveValue(func(ctx context.Context, n Node, q params) (struct{}, error) { return struct{}{}, call(ctx, n, q) })
}
