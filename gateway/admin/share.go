package admin

import (
	"context"
	"time"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

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
