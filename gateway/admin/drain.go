package admin

import (
	"context"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
)

func (g *Handlers) drainEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Drain", Path: "drain", Methods: exchange.Posting, Op: capability.Drain,
		Doc:     "Starts the orderly shutdown of the node.",
		Answers: exchange.JSONReplies[struct{}]("the shutdown has started"),
		Serve: serveAction(g, func(ctx context.Context, n api.Node, _ exchange.Params) error {
			return n.Drain(ctx)
		}),
	}
}

func (g *Handlers) adminDrainEndpoint() exchange.Endpoint {
	return mutation(g, "AdminDrain", "drain", capability.Drain,
		"Starts the orderly shutdown of the node.", "the shutdown has started", noSubject,
		func(ctx context.Context, n api.Node, _ struct{}) (struct{}, error) { return struct{}{}, n.Drain(ctx) })
}
