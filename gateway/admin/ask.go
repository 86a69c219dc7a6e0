package admin

import (
	"context"
	"net/http"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// askParam names peers that a verb asks before others.
var askParam = exchange.Param{
	Name: "ask", Doc: "peers to ask first: IDs, or multiaddrs with /p2p/ID, separated by commas; over TCP this needs a " +
		"capability that allows connect",
}

// asking returns the node, which asks the peers that the request names before others. That makes the
// node dial addresses that the request chose. So it takes the Unix socket, or a capability for connect.
func (g *Handlers) asking(w *exchange.Response, r *http.Request, in exchange.Input) (api.Node, error) {
	text := in.Query.Text(askParam.Name)
	if text == "" {
		return g.node, nil
	}
	if w.From.Addr.IsValid() {
		if w.Grant.ID == "" && w.Grant.Expires.IsZero() {
			return nil, status.Errorf(status.Unauthenticated,
				"ask makes the node dial, which needs a capability that allows connect; use the Unix socket, or `allium get`")
		}
		if err := w.Authorize(r, capability.Request{Op: capability.Connect}); err != nil {
			return nil, err
		}
	}
	return g.node.AskFirst(strings.SplitN(text, ",", api.MaxAsked+1))
}

// apiList lists a directory.
func (g *Handlers) apiList(w *exchange.Response, r *http.Request, in exchange.Input) error {
	node, err := g.asking(w, r, in)
	if err != nil {
		return err
	}
	return sendSeq(w, r, flushBuffered, node.List(r.Context(), in.Query.Text("key")))
}

// apiStat describes an object.
func (g *Handlers) apiStat(w *exchange.Response, r *http.Request, in exchange.Input) error {
	node, err := g.asking(w, r, in)
	if err != nil {
		return err
	}
	st, err := node.Stat(r.Context(), in.Query.Text("key"))
	if err != nil {
		return exchange.CauseOf(r.Context(), err)
	}
	return w.SendJSON(r, http.StatusOK, st)
}

// shareEndpoint is the verb that makes tickets.
func (g *Handlers) shareEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Share", Path: "share", Methods: exchange.Posting, Op: capability.Pin, Target: exchange.TargetTree,
		Doc: "Makes a ticket for an object that the store holds, and pins it without announcing it.",
		Params: []exchange.Param{
			exchange.KeyParam, {Name: "name", Doc: "the name that the ticket suggests for the output"},
			{Name: "for", Doc: "how long the ticket works, such as 24h; if missing, it does not say"},
		},
		Answers: exchange.JSONReplies[api.Shared]("the ticket"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Shared, error) {
			o := api.ShareOptions{Name: q.Text("name")}
			if text := q.Text("for"); text != "" {
				var err error
				if o.For, err = time.ParseDuration(text); err != nil || o.For <= 0 {
					return api.Shared{}, status.Errorf(status.BadRequest, "parameter for is %q. Set it to a time such as 24h",
						exchange.Clip(text))
				}
			}
			return n.Share(ctx, q.Text("key"), o)
		}),
	}
}
