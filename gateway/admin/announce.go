package admin

import (
	"context"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

func (g *Handlers) announceEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Announce", Path: "announce", Methods: exchange.Posting, Op: capability.Announce,
		Params:  []exchange.Param{exchange.KeyParam},
		Doc:     "Publishes that this node provides an object.",
		Answers: exchange.JSONReplies[api.Announced]("how many peers stored the record"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Announced, error) {
			return n.Announce(ctx, q.Text("key"))
		}),
	}
}

func (g *Handlers) adminReindexEndpoint() exchange.Endpoint {
	return mutation(g, "AdminReindex", "reindex", capability.Announce,
		"Publishes again that this node provides an object, or every pinned object.", "what was published",
		func(r *api.ReindexRequest) subject { return subject{key: r.Key} }, reindex)
}

// reindex publishes one object, or every pinned one.
func reindex(ctx context.Context, n api.Node, r api.ReindexRequest) (done api.Reindexed, err error) {
	announce := func(key string) error {
		_, err := n.Announce(ctx, key)
		if err == nil {
			done.Objects++
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		if done.Failed++; done.Error == nil {
			rep := status.ReportOf(err)
			done.Error = &rep
		}
		return nil
	}
	if r.Key != "" {
		if _, err := n.Announce(ctx, r.Key); err != nil {
			return done, err
		}
		return api.Reindexed{Objects: 1}, nil
	}
	var last b3.Root
	for p, err := range n.Pins(ctx) { // ordered by address, so the pins of an object are adjacent
		if err != nil {
			return done, err
		}
		if p.Root == last {
			continue
		}
		last = p.Root
		if err := announce(p.Root.String()); err != nil {
			return done, err
		}
	}
	return done, nil
}
