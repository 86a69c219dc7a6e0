package admin

import (
	"context"
	"net/http"
	"reflect"
	"slices"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// apiPath is the path of the local API's verbs.
const apiPath = "/api/v1/"

// apiFails are the outcomes of every verb: almost all, because a node may fail in any way.
var apiFails = slices.DeleteFunc(status.All(), func(o status.Outcome) bool {
	switch o {
	case status.OK, status.Partial, status.NotModified, status.Method, status.BadFrame, status.FrameOversize:
		return true
	}
	return false
})

// api returns the routes of the local API (SPEC §11). [api.Node] documents the verbs. The ID of a
// route is the name of its method there.
func (g *Handlers) api() []exchange.Endpoint {
	return g.verbs(
		exchange.Endpoint{
			ID: "Add", Path: "add", Methods: exchange.Posting, Op: capability.Put,
			Doc: "Stores a tar stream and adds each entry at its top level. Entries may come in any order; of several " +
				"with one path the last counts.",
			Params: []exchange.Param{
				exchange.FlagParam("no_pin", "pins nothing, so the cache may evict what was added"), exchange.LabelParam,
				rfParam, ecParam, exchange.BadEntryParam,
				exchange.FlagParam("ordered", "the entries are in the order of a directory and none comes twice; "+
					"they are added while they arrive, and a bad one is refused at once"),
			},
			Headers: []string{api.HeaderRoots},
			Body:    []exchange.Payload{{Media: exchange.MediaTar}},
			Answers: lineAnswers[api.Added, struct{}]("what was added, each once it is durable"),
			Serve:   withLabel(g.apiAdd),
		},
		exchange.Endpoint{
			ID: "Get", Path: "get", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam, askParam},
			Doc:     "Returns a file's bytes, or a directory as a tar stream.",
			Answers: streamAnswers(exchange.MediaBytes, exchange.MediaTar), Serve: g.apiGet,
		},
		exchange.Endpoint{
			ID: "Cat", Path: "cat", Methods: exchange.Getting,
			Doc: "Returns a range of a file's bytes.",
			Params: []exchange.Param{
				exchange.KeyParam, askParam, {Name: "start", Kind: exchange.IntegerParam, Doc: "the first byte, from 0"},
				{Name: "end", Kind: exchange.IntegerParam, Doc: "the byte after the last; -1: the end of the file"},
			},
			Answers: streamAnswers(exchange.MediaBytes), Serve: g.apiCat,
		},
		exchange.Endpoint{
			ID: "Fetch", Path: "fetch", Methods: exchange.Posting, Op: capability.Fetch, Target: exchange.TargetTree,
			Params:  []exchange.Param{exchange.KeyParam, askParam},
			Doc:     "Fetches an object and everything below it into the store.",
			Answers: lineAnswers[struct{}, api.Fetched]("progress, and what was fetched"), Serve: g.apiFetch,
		},
		exchange.Endpoint{
			ID: "List", Path: "ls", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam, askParam},
			Doc:     "Lists the entries of a directory in bytewise order of their names.",
			Answers: lineAnswers[api.Entry, struct{}]("the entries"),
			Serve:   g.apiList,
		},
		exchange.Endpoint{
			ID: "Diff", Path: "diff", Methods: exchange.Getting,
			Doc:     "Lists the entries that differ between two keys.",
			Params:  []exchange.Param{{Name: "from", Doc: "a key; empty: nothing"}, {Name: "to", Doc: "a key; empty: nothing"}},
			Answers: lineAnswers[api.Change, struct{}]("the entries that differ"),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				return sendSeq(w, r, flushBuffered, g.node.Diff(r.Context(), in.Query.Text("from"), in.Query.Text("to")))
			},
		},
		exchange.Endpoint{
			ID: "Keep", Path: "keep", Methods: exchange.Posting, Op: capability.Put,
			Doc:     "Reports which objects the store has whole, and marks those as used now.",
			Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
			More:    rootsDoc,
			Answers: exchange.JSONReplies[[]bool]("for each address, in order"), Serve: g.apiKeep,
		},
		exchange.Endpoint{
			ID: "Files", Path: "files", Methods: exchange.Posting, Op: capability.Fetch,
			Doc:     "Returns files as one tar stream, in the requested order and named by their digests.",
			Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
			More:    rootsDoc,
			Answers: streamAnswers(exchange.MediaTar), Serve: g.apiFiles,
		},
		exchange.Endpoint{
			ID: "Stat", Path: "stat", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam, askParam},
			Doc:     "Describes an object, and whether the node has it.",
			Answers: exchange.JSONReplies[api.Stat]("the object"),
			Serve:   g.apiStat,
		},
		exchange.Endpoint{
			ID: "StatStore", Path: "store", Methods: exchange.Getting,
			Doc:     "Reports what the store holds, from counters.",
			Answers: exchange.JSONReplies[api.StoreStat]("the store"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.StoreStat, error) {
				return n.StatStore(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "Damage", Path: "store/damage", Methods: exchange.Getting,
			Doc:     "Lists the damage that recoveries and checks found in the store.",
			Answers: exchange.JSONReplies[api.DamageReport]("the damage, oldest first"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.DamageReport, error) {
				return n.Damage(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "AcceptDamage", Path: "store/damage/accept", Methods: exchange.Posting, Op: capability.Repair,
			Doc:     "Accepts all open damage as lost. Evictions and writes continue then.",
			Answers: exchange.JSONReplies[api.DamageReport]("the damage that was open and is accepted now"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.DamageReport, error) {
				return n.AcceptDamage(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "Verify", Path: "verify", Methods: exchange.Posting, Op: capability.Repair, Target: exchange.TargetTree,
			Doc: "Reads and verifies objects. A bad object is an item, not an error.",
			Params: []exchange.Param{
				{Name: "key", Doc: "what to verify; empty: every object in the store"},
				exchange.FlagParam("repair", "fetches damaged or missing objects again"),
			},
			ReadOnly: func(q exchange.Params) bool { return !q.Flag("repair") },
			Answers:  lineAnswers[api.Verified, struct{}]("the objects, as they are read"),
			Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
				o := api.VerifyOptions{Repair: in.Query.Flag("repair")}
				return sendSeq(w, r, flushEach, g.node.Verify(r.Context(), in.Query.Text("key"), o))
			},
		},
		g.pinEndpoint(), g.unpinEndpoint(),
		exchange.Endpoint{
			ID: "GC", Path: "gc/run", Methods: exchange.Posting, Op: capability.GC,
			Doc: "Removes objects that neither a pin nor a running operation needs.",
			Params: []exchange.Param{
				exchange.FlagParam("all", "removes all of them, not only down to the low-water mark"),
				exchange.FlagParam("dry", "removes nothing and reports what it would remove"),
				exchange.FlagParam("fast", "runs without pauses"), exchange.FlagParam("list", "lists each removed object"),
			},
			ReadOnly: func(q exchange.Params) bool { return q.Flag("dry") },
			Answers:  lineAnswers[api.GCObject, api.GCReport]("the removed objects if list is true, progress, and a report"),
			Serve:    g.apiGC,
		},
		exchange.Endpoint{
			ID: "GCWhy", Path: "gc/why", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam},
			Doc:     "Explains why the store keeps an object.",
			Answers: exchange.JSONReplies[api.GCWhy]("what keeps it"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.GCWhy, error) {
				return n.GCWhy(ctx, q.Text("key"))
			}),
		},
		exchange.Endpoint{
			ID: "Pins", Path: "pin/ls", Methods: exchange.Getting,
			Doc:     "Lists the pins in the order of their addresses.",
			Answers: lineAnswers[api.Pin, struct{}]("the pins"),
			Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error {
				return sendSeq(w, r, flushBuffered, g.node.Pins(r.Context()))
			},
		},
		exchange.Endpoint{
			ID: "Resolve", Path: "resolve", Methods: exchange.Getting,
			Doc:     "Finds the object that a key names and its providers, the best first.",
			Params:  slices.Concat([]exchange.Param{exchange.KeyParam}, exchange.NameParams),
			Answers: exchange.JSONReplies[api.Resolved]("the object and its providers"), Serve: g.apiResolve,
		},
		exchange.Endpoint{
			ID: "FindProviders", Path: "providers", Methods: exchange.Getting,
			Doc: "Finds the other peers that have an object, the best first.",
			Params: slices.Concat([]exchange.Param{exchange.KeyParam}, exchange.QueryParams, []exchange.Param{
				exchange.FlagParam("trace", "ends with a trace of the lookup"),
			}),
			Answers: lineAnswers[api.Provider, struct{}]("the providers"), Serve: g.apiProviders,
		},
		exchange.Endpoint{
			ID: "Why", Path: "why", Methods: exchange.Getting,
			Doc: "Returns the record of a lookup: what it asked, who answered, and where the time went.",
			Params: []exchange.Param{{
				Name: "key", Kind: exchange.TextParam,
				Doc: "the ID of a lookup, or an address: then its latest lookup that was not answered at once",
			}},
			Answers: exchange.JSONReplies[api.Why]("the lookup"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Why, error) {
				return n.Why(ctx, q.Text("key"))
			}),
		},
		exchange.Endpoint{
			ID: "Announce", Path: "announce", Methods: exchange.Posting, Op: capability.Announce,
			Params:  []exchange.Param{exchange.KeyParam},
			Doc:     "Publishes that this node provides an object.",
			Answers: exchange.JSONReplies[api.Announced]("how many peers stored the record"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Announced, error) {
				return n.Announce(ctx, q.Text("key"))
			}),
		},
		exchange.Endpoint{
			ID: "ID", Path: "id", Methods: exchange.Getting,
			Doc:     "Returns the node's peer id and its addresses.",
			Answers: exchange.JSONReplies[api.ID]("the node"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.ID, error) {
				return n.ID(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "Peers", Path: "peers", Methods: exchange.Getting,
			Doc:     "Lists the connections to peers.",
			Answers: exchange.JSONReplies[[]api.Peer]("the connections"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) ([]api.Peer, error) {
				peers, err := n.Peers(ctx)
				return append([]api.Peer{}, peers...), err // [] and not null
			}),
		},
		exchange.Endpoint{
			ID: "Reach", Path: "reach", Methods: exchange.Getting,
			Doc:     "Says from where the node can be dialled, address by address, and what to do about it.",
			Answers: exchange.JSONReplies[api.Reach]("what is known of the addresses"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Reach, error) {
				return n.Reach(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "Seeds", Path: "seeds", Methods: exchange.Getting,
			Doc:     "Lists the seeds, the seed manifest, and how many peers the node remembers.",
			Answers: exchange.JSONReplies[api.Seeds]("the seeds"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Seeds, error) {
				s, err := n.Seeds(ctx)
				s.Seeds = append([]api.Seed{}, s.Seeds...) // [] and not null
				return s, err
			}),
		},
		g.eventsEndpoint(), g.shareEndpoint(), g.durabilityEndpoint(), g.objectDurabilityEndpoint(), g.awaitCopiesEndpoint(),
		exchange.Endpoint{
			ID: "AskPeer", Path: "ask", Methods: exchange.Posting, Op: capability.Connect,
			Doc: "Asks a peer how much it has of an object, and dials it if need be.",
			Params: []exchange.Param{
				exchange.KeyParam, {Name: "peer", Doc: "a peer ID, or a multiaddr with /p2p/ID"},
			},
			Answers: exchange.JSONReplies[api.PeerHas]("what it says"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.PeerHas, error) {
				return n.AskPeer(ctx, q.Text("peer"), q.Text("key"))
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
			ID: "Disconnect", Path: "disconnect", Methods: exchange.Posting, Op: capability.Connect,
			Params:  []exchange.Param{exchange.PeerParam},
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
			Doc:     "Returns the faults that a node of a testnet injects.",
			Answers: exchange.JSONReplies[api.Faults]("the faults"),
			Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Faults, error) {
				return n.Faults(ctx)
			}),
		},
		exchange.Endpoint{
			ID: "SetFaults", Path: "faults/set", Methods: exchange.Posting, Op: capability.Faults,
			Doc:     "Replaces all faults that a node of a testnet injects.",
			Body:    []exchange.Payload{exchange.JSONBody[api.Faults]()},
			Answers: exchange.JSONReplies[api.Faults]("the faults in force"), Serve: g.apiSetFaults,
		},
		g.resumeCopiesEndpoint(), g.evacuateEndpoint(), g.stopEvacuationEndpoint(),
		exchange.Endpoint{
			ID: "Drain", Path: "drain", Methods: exchange.Posting, Op: capability.Drain,
			Doc:     "Starts the orderly shutdown of the node.",
			Answers: exchange.JSONReplies[struct{}]("the shutdown has started"),
			Serve: serveAction(g, func(ctx context.Context, n api.Node, _ exchange.Params) error {
				return n.Drain(ctx)
			}),
		},
	)
}

// rootsDoc documents the body of Keep and Files.
const rootsDoc = "The body is 1 to 4,096 digests, 32 bytes each."

// allowedOnDenied are the verbs that manage local content, denied content too.
var allowedOnDenied = []string{"Stat", "Verify", "Unpin", "GCWhy", "Why"}

// checkDenied wraps a handler. It refuses a request with a parameter that names denied content, and
// leaves malformed keys to the handler.
func (g *Handlers) checkDenied(serve exchange.Handler) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		for _, name := range [...]string{"key", "from", "to"} {
			if err := exchange.CheckDenied(g.denylist, in.Query.Text(name)); err != nil {
				return err
			}
		}
		return serve(w, r, in)
	}
}

// verbs completes the routes of the local API.
func (g *Handlers) verbs(table ...exchange.Endpoint) []exchange.Endpoint {
	for i := range table {
		e := &table[i]
		e.Name, e.Path, e.On, e.Fails = "api/"+e.Path, apiPath+e.Path, exchange.OnAdmin, apiFails
		if !slices.Contains(allowedOnDenied, e.ID) {
			e.Serve = g.checkDenied(e.Serve)
		}
	}
	return table
}

// lineAnswers returns the answers of a verb that sends items.
func lineAnswers[Item, Last any](doc string) []exchange.Reply {
	value := exchange.ArrayBody[Item]()
	if reflect.TypeFor[Item]().NumField() == 0 {
		value = exchange.JSONBody[Last]()
	}
	headers := []string{"Cache-Control"}
	return []exchange.Reply{
		{Code: http.StatusOK, Payload: exchange.LinesBody[Item, Last](), Headers: headers, Doc: doc},
		{Code: http.StatusOK, Payload: value, Headers: headers, Doc: doc},
	}
}

// streamAnswers returns the answers of a verb that sends bytes.
func streamAnswers(media ...string) []exchange.Reply {
	var all []exchange.Reply
	for _, m := range media {
		all = append(all, exchange.Reply{
			Code: http.StatusOK, Payload: exchange.Payload{Media: m},
			Headers: []string{"Cache-Control", "Trailer", api.HeaderObject},
			Doc:     "the bytes, and at their end the trailer " + api.HeaderStatus,
		})
	}
	return all
}

// withLabel wraps a handler. It sets the parameter label to the label that the pin gets.
func withLabel(serve exchange.Handler) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		in.Query = in.Query.With(exchange.LabelParam.Name, w.Label(in.Query.Text(exchange.LabelParam.Name)))
		return serve(w, r, in)
	}
}

// serveValue returns the handler of a verb that answers with one JSON value.
func serveValue[T any](g *Handlers, call func(context.Context, api.Node, exchange.Params) (T, error)) exchange.Handler {
	return func(w *exchange.Response, r *http.Request, in exchange.Input) error {
		v, err := call(r.Context(), g.node, in.Query)
		if err != nil {
			return exchange.CauseOf(r.Context(), err)
		}
		return w.SendJSON(r, http.StatusOK, v)
	}
}

// serveAction returns the handler of a verb that answers with {}.
func serveAction(g *Handlers, call func(context.Context, api.Node, exchange.Params) error) exchange.Handler {
	return serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (struct{}, error) {
		return struct{}{}, call(ctx, n, q)
	})
}
