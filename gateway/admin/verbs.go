package admin

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// apiPath is where the verbs of the local API are.
const apiPath = "/api/v1/"

// apiFails is what a node may answer a verb with: what it is asked for may be
// anywhere, and fail in any way.
var apiFails = slices.DeleteFunc(status.All(), func(o status.Outcome) bool {
	switch o {
	case status.OK, status.Partial, status.NotModified, status.Method, status.BadFrame, status.FrameOversize:
		return true
	}
	return false
})

// api is the local API (SPEC §11); what its verbs do is said at
// [api.Node], and the id of each is the name of its method there.
func (g *Handlers) api() []exchange.Endpoint {
	return g.verbs(
		exchange.Endpoint{
			ID: "Add", Path: "add", Methods: exchange.Posting, Op: capability.Put,
			Doc: "Stores a tar stream: each entry at its top level is added. Entries come in any order; of several with one path the last counts.",
			Params: []exchange.Param{
				exchange.FlagParam("no_pin", "leave what was added to the cache"), exchange.LabelParam,
				{Name: "on_bad_entry", Of: []string{string(api.RefuseBadEntries), string(api.SkipBadEntries)}, Doc: "what becomes of an entry that no directory can hold, or that get would refuse: nothing is added (refuse, the default), or it is left out and listed"},
				exchange.FlagParam("ordered", "the entries are in the order of a directory, none twice: they are added while they arrive, and a bad one is refused at once"),
			},
			Body:    []exchange.Payload{{Media: exchange.MediaTar}},
			Answers: lineAnswers[api.Added, struct{}]("what was added, each once it is durable"),
			Serve:   labelled(g.apiAdd),
		},
		exchange.Endpoint{
			ID: "Get", Path: "get", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam},
			Doc:     "A file's bytes, or a directory as a tar stream.",
			Answers: streamAnswers(exchange.MediaBytes, exchange.MediaTar), Serve: g.apiGet,
		},
		exchange.Endpoint{
			ID: "Cat", Path: "cat", Methods: exchange.Getting,
			Doc:     "A range of a file's bytes.",
			Params:  []exchange.Param{exchange.KeyParam, {Name: "start", Kind: exchange.IntegerParam, Doc: "first byte"}, {Name: "end", Kind: exchange.IntegerParam, Doc: "byte after the last; -1: to its end"}},
			Answers: streamAnswers(exchange.MediaBytes), Serve: g.apiCat,
		},
		exchange.Endpoint{
			ID: "Fetch", Path: "fetch", Methods: exchange.Posting, Op: capability.Fetch, Acts: exchange.ActsOnTree, Params: []exchange.Param{exchange.KeyParam},
			Doc:     "Brings an object, with everything below it, into the store.",
			Answers: lineAnswers[struct{}, api.Fetched]("progress, and what was fetched"), Serve: g.apiFetch,
		},
		exchange.Endpoint{
			ID: "List", Path: "ls", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam},
			Doc:     "The entries of a directory in bytewise order of their names.",
			Answers: lineAnswers[api.Entry, struct{}]("the entries"),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return sendSeq(w, r, batched, g.node.List(r.Context(), in.Query.Text("key")))
			},
		},
		exchange.Endpoint{
			ID: "Diff", Path: "diff", Methods: exchange.Getting,
			Doc:     "The entries that are not the same in what two keys name.",
			Params:  []exchange.Param{{Name: "from", Doc: "a key; empty: nothing"}, {Name: "to", Doc: "a key; empty: nothing"}},
			Answers: lineAnswers[api.Change, struct{}]("the entries that differ"),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return sendSeq(w, r, batched, g.node.Diff(r.Context(), in.Query.Text("from"), in.Query.Text("to")))
			},
		},
		exchange.Endpoint{
			ID: "Keep", Path: "keep", Methods: exchange.Posting, Op: capability.Put,
			Doc:     "Says which objects the store holds whole, and keeps those as if they were used now.",
			Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
			More:    rootsDoc,
			Answers: exchange.JSONReplies[[]bool]("for each address, in order"), Serve: g.apiKeep,
		},
		exchange.Endpoint{
			ID: "Files", Path: "files", Methods: exchange.Posting, Op: capability.Fetch,
			Doc:     "Files as one tar stream, in the order asked for and named by their digests.",
			Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
			More:    rootsDoc,
			Answers: streamAnswers(exchange.MediaTar), Serve: g.apiFiles,
		},
		exchange.Endpoint{
			ID: "Stat", Path: "stat", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam},
			Doc:     "Describes an object and what the node has of it.",
			Answers: exchange.JSONReplies[api.Stat]("the object"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Stat, error) {
				return n.Stat(ctx, q.Text("key"))
			}),
		},
		exchange.Endpoint{
			ID: "StatStore", Path: "store", Methods: exchange.Getting,
			Doc:     "Says what the store holds, from counters.",
			Answers: exchange.JSONReplies[api.StoreStat]("the store"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.StoreStat, error) {
				return n.StatStore(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "Damage", Path: "store/damage", Methods: exchange.Getting,
			Doc:     "Lists what recoveries and checks found of the store that is not what was written there.",
			Answers: exchange.JSONReplies[api.DamageReport]("the damage, oldest first"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.DamageReport, error) {
				return n.Damage(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "AcceptDamage", Path: "store/damage/accept", Methods: exchange.Posting, Op: capability.Repair,
			Doc:     "Ends all open damage: what is lost is lost. Then evictions and writes go on.",
			Answers: exchange.JSONReplies[api.DamageReport]("what was open, and is accepted now"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.DamageReport, error) {
				return n.AcceptDamage(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "Verify", Path: "verify", Methods: exchange.Posting, Op: capability.Repair, Acts: exchange.ActsOnTree,
			Doc:     "Reads objects again and proves them. A bad one is an item, not an error.",
			Params:  []exchange.Param{{Name: "key", Doc: "what to verify; empty: every object in the store"}, exchange.FlagParam("repair", "fetch what is damaged or missing again")},
			Looks:   func(q exchange.Params) bool { return !q.Flag("repair") },
			Answers: lineAnswers[api.Verified, struct{}]("the objects, as they are read"),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return sendSeq(w, r, live, g.node.Verify(r.Context(), in.Query.Text("key"), api.VerifyOptions{Repair: in.Query.Flag("repair")}))
			},
		},
		exchange.Endpoint{
			ID: "Pin", Path: "pin/add", Methods: exchange.Posting, Op: capability.Pin, Acts: exchange.ActsOnTree,
			Doc:     "Keeps an object.",
			Params:  []exchange.Param{exchange.KeyParam, exchange.RecursiveParam, exchange.LabelParam},
			Answers: exchange.JSONReplies[api.Pin]("the pin"),
			Serve: labelled(serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Pin, error) {
				return n.Pin(ctx, q.Text("key"), api.PinOptions{Recursive: q.Flag("recursive"), Label: q.Text("label")})
			})),
		},
		exchange.Endpoint{
			ID: "Unpin", Path: "pin/rm", Methods: exchange.Posting, Op: capability.Unpin,
			Doc:     "Removes the pin with that label, or all of the object's pins.",
			Params:  []exchange.Param{exchange.KeyParam, exchange.LabelParam},
			Answers: exchange.JSONReplies[struct{}]("done"),
			Serve: labelled(serveAction(g, func(ctx context.Context, n api.Node, q exchange.Params) error {
				return n.Unpin(ctx, q.Text("key"), q.Text("label"))
			})),
		},
		exchange.Endpoint{
			ID: "GC", Path: "gc/run", Methods: exchange.Posting, Op: capability.GC,
			Doc:     "Removes objects that nothing holds.",
			Params:  []exchange.Param{exchange.FlagParam("all", "everything that nothing holds, not only down to the low-water mark"), exchange.FlagParam("dry", "remove nothing, say what would be"), exchange.FlagParam("fast", "take no rests"), exchange.FlagParam("list", "tell each object that is removed")},
			Looks:   func(q exchange.Params) bool { return q.Flag("dry") },
			Answers: lineAnswers[api.GCObject, api.GCReport]("the objects, if they were asked for, progress, and what was done"),
			Serve:   g.apiGC,
		},
		exchange.Endpoint{
			ID: "GCWhy", Path: "gc/why", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam},
			Doc:     "Says what keeps an object.",
			Answers: exchange.JSONReplies[api.GCWhy]("what holds it"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.GCWhy, error) {
				return n.GCWhy(ctx, q.Text("key"))
			}),
		},
		exchange.Endpoint{
			ID: "Pins", Path: "pin/ls", Methods: exchange.Getting,
			Doc:     "The pins by address.",
			Answers: lineAnswers[api.Pin, struct{}]("the pins"),
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error {
				return sendSeq(w, r, batched, g.node.Pins(r.Context()))
			},
		},
		exchange.Endpoint{
			ID: "FindProviders", Path: "providers", Methods: exchange.Getting,
			Doc:     "Who says to have an object, as they are found.",
			Params:  []exchange.Param{exchange.KeyParam, {Name: "limit", Kind: exchange.IntegerParam, Doc: "stop after that many, 1 to 32; 0: the node's default"}, exchange.FlagParam("fresh", "only what peers answer now"), exchange.FlagParam("trace", "end with how the lookup went")},
			Answers: lineAnswers[api.Provider, struct{}]("the providers"), Serve: g.apiProviders,
		},
		exchange.Endpoint{
			ID: "Announce", Path: "announce", Methods: exchange.Posting, Op: capability.Announce, Params: []exchange.Param{exchange.KeyParam},
			Doc:     "Tells the network that this node provides an object.",
			Answers: exchange.JSONReplies[api.Announced]("who took the record"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Announced, error) {
				return n.Announce(ctx, q.Text("key"))
			}),
		},
		exchange.Endpoint{
			ID: "ID", Path: "id", Methods: exchange.Getting,
			Doc:     "Who the node is and where it listens.",
			Answers: exchange.JSONReplies[api.ID]("the node"),
			Serve:   serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.ID, error) { return n.ID(ctx) }),
		},
		exchange.Endpoint{
			ID: "Peers", Path: "peers", Methods: exchange.Getting,
			Doc:     "The connections.",
			Answers: exchange.JSONReplies[[]api.Peer]("the connections"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) ([]api.Peer, error) {
				peers, err := n.Peers(ctx)
				return append([]api.Peer{}, peers...), err // [] and not null
			}),
		},
		exchange.Endpoint{
			ID: "Seeds", Path: "seeds", Methods: exchange.Getting,
			Doc:     "The seeds, and what is known of the network without them.",
			Answers: exchange.JSONReplies[api.Seeds]("the seeds"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Seeds, error) {
				s, err := n.Seeds(ctx)
				s.Seeds = append([]api.Seed{}, s.Seeds...) // [] and not null
				return s, err
			}),
		},
		exchange.Endpoint{
			ID: "Connect", Path: "connect", Methods: exchange.Posting, Op: capability.Connect,
			Doc:     "Dials a peer.",
			Params:  []exchange.Param{{Name: "addr", Kind: exchange.TextParam, Doc: "a multiaddr with /p2p/ID"}},
			Answers: exchange.JSONReplies[api.Peer]("the connection"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Peer, error) {
				return n.Connect(ctx, q.Text("addr"))
			}),
		},
		exchange.Endpoint{
			ID: "Disconnect", Path: "disconnect", Methods: exchange.Posting, Op: capability.Connect, Params: []exchange.Param{exchange.PeerParam},
			Doc:     "Closes every connection to a peer.",
			Answers: exchange.JSONReplies[struct{}]("done"),
			Serve: serveAction(g, func(ctx context.Context, n api.Node, q exchange.Params) error {
				return n.Disconnect(ctx, q.Text("peer"))
			}),
		},
		exchange.Endpoint{
			ID: "Ping", Path: "ping", Methods: exchange.Posting, Op: capability.Connect,
			Doc:     "Measures one round trip to a peer.",
			Params:  []exchange.Param{{Name: "peer", Kind: exchange.TextParam, Doc: "a peer's id or multiaddr"}},
			Answers: exchange.JSONReplies[api.Pong]("the round trip"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Pong, error) {
				return n.Ping(ctx, q.Text("peer"))
			}),
		},
		exchange.Endpoint{
			ID: "Faults", Path: "faults", Methods: exchange.Getting,
			Doc:     "What a node of a testnet does wrong on purpose.",
			Answers: exchange.JSONReplies[api.Faults]("its faults"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Faults, error) {
				return n.Faults(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "SetFaults", Path: "faults/set", Methods: exchange.Posting, Op: capability.Faults,
			Doc:     "Replaces what a node of a testnet does wrong on purpose, all of it.",
			Body:    []exchange.Payload{exchange.JSONBody[api.Faults]()},
			Answers: exchange.JSONReplies[api.Faults]("what holds now"), Serve: g.apiSetFaults,
		},
		exchange.Endpoint{
			ID: "Drain", Path: "drain", Methods: exchange.Posting, Op: capability.Drain,
			Doc:     "Begins the orderly shutdown of the node.",
			Answers: exchange.JSONReplies[struct{}]("it has begun"),
			Serve:   serveAction(g, func(ctx context.Context, n api.Node, _ exchange.Params) error { return n.Drain(ctx) }),
		},
	)
}

// rootsDoc says what the body of Keep and Files is.
const rootsDoc = "The body is 1 to 4,096 digests, 32 bytes each."

// ofItsOwn are the verbs that look after what is here, whatever that is: what is
// denied too.
var ofItsOwn = []string{"Stat", "Verify", "Unpin", "GCWhy"}

// undenied refuses a request one of whose parameters names what is not to be
// served. A key that is none is the handler's to refuse.
func (g *Handlers) undenied(serve exchange.Handler) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		for _, name := range [...]string{"key", "from", "to"} {
			if err := exchange.DeniedKey(g.denylist, in.Query.Text(name)); err != nil {
				return err
			}
		}
		return serve(w, r, in)
	}
}

// verbs completes the lines of the local API.
func (g *Handlers) verbs(table ...exchange.Endpoint) []exchange.Endpoint {
	for i := range table {
		e := &table[i]
		e.Name, e.Path, e.On, e.Fails = "api/"+e.Path, apiPath+e.Path, exchange.OnAdmin, apiFails
		if !slices.Contains(ofItsOwn, e.ID) {
			e.Serve = g.undenied(e.Serve)
		}
	}
	return table
}

// lineAnswers is the answers of a verb that sends items.
func lineAnswers[Item, Last any](doc string) []exchange.Reply {
	return []exchange.Reply{{Code: http.StatusOK, Payload: exchange.LinesBody[Item, Last](), Headers: []string{"Cache-Control"}, Doc: doc}}
}

// streamAnswers is the answers of a verb that sends bytes.
func streamAnswers(media ...string) []exchange.Reply {
	var all []exchange.Reply
	for _, m := range media {
		all = append(all, exchange.Reply{Code: http.StatusOK, Payload: exchange.Payload{Media: m}, Headers: []string{"Cache-Control", "Trailer", api.HeaderObject}, Doc: "the bytes, and at their end the trailer " + api.HeaderStatus})
	}
	return all
}

// labelled serves a verb with the label that its pin gets.
func labelled(serve exchange.Handler) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		url.Values(in.Query).Set(exchange.LabelParam.Name, w.Label(in.Query.Text(exchange.LabelParam.Name)))
		return serve(w, r, in)
	}
}

// serveValue serves a verb that answers with one JSON value.
func serveValue[T any](g *Handlers, call func(context.Context, api.Node, exchange.Params) (T, error)) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		v, err := call(r.Context(), g.node, in.Query)
		if err != nil {
			return exchange.CauseOf(r.Context(), err)
		}
		return w.SendJSON(r, http.StatusOK, v)
	}
}

// serveAction serves a verb that has nothing to answer but {}.
func serveAction(g *Handlers, call func(context.Context, api.Node, exchange.Params) error) exchange.Handler {
	return serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (struct{}, error) {
		return struct{}{}, call(ctx, n, q)
	})
}
