package admin

import (
	"context"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
)

func (g *Handlers) pinEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Pin", Path: "pin/add", Methods: exchange.Posting, Op: capability.Pin, Target: exchange.TargetTree,
		Doc:     "Pins an object.",
		Params:  []exchange.Param{exchange.KeyParam, exchange.RecursiveParam, exchange.LabelParam, rfParam, ecParam},
		Answers: exchange.JSONReplies[api.Pin]("the pin"),
		Serve: withLabel(serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Pin, error) {
			return n.Pin(ctx, q.Text("key"), api.PinOptions{
				Recursive: q.Flag("recursive"), Label: q.Text("label"), Target: targetOf(q),
			})
		})),
	}
}

func (g *Handlers) unpinEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Unpin", Path: "pin/rm", Methods: exchange.Posting, Op: capability.Unpin,
		Doc:     "Removes the pin with that label, or all pins of the object.",
		Params:  []exchange.Param{exchange.KeyParam, exchange.LabelParam},
		Answers: exchange.JSONReplies[struct{}]("done"),
		Serve: withLabel(serveAction(g, func(ctx context.Context, n api.Node, q exchange.Params) error {
			return n.Unpin(ctx, q.Text("key"), q.Text("label"))
		})),
	}
}
