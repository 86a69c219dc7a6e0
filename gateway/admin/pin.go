package admin

import (
	"context"
	"net/http"

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

func (g *Handlers) pinsEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Pins", Path: "pin/ls", Methods: exchange.Getting,
		Doc:     "Lists the pins in the order of their addresses.",
		Answers: lineAnswers[api.Pin, struct{}]("the pins"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error {
			return sendSeq(w, r, flushBuffered, g.node.Pins(r.Context()))
		},
	}
}

func (g *Handlers) adminPinEndpoint() exchange.Endpoint {
	return mutation(g, "AdminPin", "pin", capability.Pin, "Pins an object.", "the pin",
		func(r *api.PinRequest) subject { return subject{key: r.Key, label: &r.Label} },
		func(ctx context.Context, n api.Node, r api.PinRequest) (api.Pin, error) {
			return n.Pin(ctx, r.Key, api.PinOptions{Recursive: r.Recursive, Label: r.Label, Target: r.Target})
		})
}

func (g *Handlers) adminUnpinEndpoint() exchange.Endpoint {
	return mutation(g, "AdminUnpin", "unpin", capability.Unpin,
		"Removes the pin with that label, or all pins of the object.", "done",
		func(r *api.UnpinRequest) subject { return subject{key: r.Key, label: &r.Label, allowDenied: true} },
		func(ctx context.Context, n api.Node, r api.UnpinRequest) (struct{}, error) {
			return struct{}{}, n.Unpin(ctx, r.Key, r.Label)
		})
}
