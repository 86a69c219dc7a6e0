package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

// rfParam asks for copies.
var rfParam = exchange.Param{
	Name: "rf", Kind: exchange.IntegerParam,
	Doc: "nodes that shall hold the object, this one included; 0: the pin asks for none any more",
}

// ecParam asks for an erasure coding.
var ecParam = exchange.Param{
	Name: "ec", Kind: exchange.AnyTextParam,
	Doc: "data and parity shards of the object, each on another node, such as 6+3; not with rf",
}

// targetOf returns the durability that a request asks for, nil if it says nothing of it.
func targetOf(q exchange.Params) *api.Target {
	if q.Text(rfParam.Name) == "" && q.Text(ecParam.Name) == "" {
		return nil
	}
	// A number that does not fit is out of bounds as well after the conversion.
	return &api.Target{RF: int(min(max(q.Int(rfParam.Name, 0), -1), 1<<20)), EC: q.Text(ecParam.Name)}
}

func (g *Handlers) durabilityEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Durability", Path: "durability", Methods: exchange.Getting,
		Doc:     "Says how far the node is with the copies that pins ask for, and which members its cluster has.",
		Answers: exchange.JSONReplies[api.Durability]("how far it is"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Durability, error) {
			d, err := n.Durability(ctx)
			d.Members = append([]api.Member{}, d.Members...) // [] and not null
			return d, err
		}),
	}
}

func (g *Handlers) objectDurabilityEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "ObjectDurability", Path: "durability/object", Methods: exchange.Getting,
		Doc:     "Says which members hold an object, which proved it when, and when they are asked next.",
		Params:  []exchange.Param{exchange.KeyParam, exchange.FlagParam("explain", "says where copies belong, and why")},
		Answers: exchange.JSONReplies[api.ObjectDurability]("what the node knows of the copies"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.ObjectDurability, error) {
			d, err := n.ObjectDurability(ctx, q.Text("key"), q.Flag("explain"))
			d.Holders = append([]api.Holder{}, d.Holders...) // [] and not null
			return d, err
		}),
	}
}

func (g *Handlers) awaitCopiesEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "AwaitCopies", Path: "durability/wait", Methods: exchange.Getting,
		Doc: "Waits until an object, and everything below it that is stored here, has the copies that are asked for: by " +
			"rf or ec, or without these by all pins. The node makes them whether somebody waits or not.",
		Params:  []exchange.Param{exchange.KeyParam, rfParam, ecParam},
		Answers: lineAnswers[struct{}, api.Placed]("progress in objects, and how many have their copies"),
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			got, l, err := g.progressed(w, r, func(ctx context.Context, report api.ProgressFunc) (any, error) {
				return g.node.AwaitCopies(ctx, in.Query.Text("key"), targetOf(in.Query), report)
			})
			return l.end(got, err)
		},
	}
}
