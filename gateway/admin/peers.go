package admin

import (
	"context"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
)

func (g *Handlers) idEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "ID", Path: "id", Methods: exchange.Getting,
		Doc:     "Returns the node's peer id and its addresses.",
		Answers: exchange.JSONReplies[api.ID]("the node"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.ID, error) {
			return n.ID(ctx)
		}),
	}
}

func (g *Handlers) peersEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Peers", Path: "peers", Methods: exchange.Getting,
		Doc:     "Lists the connections to peers.",
		Answers: exchange.JSONReplies[[]api.Peer]("the connections"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) ([]api.Peer, error) {
			peers, err := n.Peers(ctx)
			return append([]api.Peer{}, peers...), err // [] and not null
		}),
	}
}

func (g *Handlers) reachEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Reach", Path: "reach", Methods: exchange.Getting,
		Doc:     "Says from where the node can be dialled, address by address, and what to do about it.",
		Answers: exchange.JSONReplies[api.Reach]("what is known of the addresses"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Reach, error) {
			return n.Reach(ctx)
		}),
	}
}

func (g *Handlers) seedsEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Seeds", Path: "seeds", Methods: exchange.Getting,
		Doc:     "Lists the seeds, the seed manifest, and how many peers the node remembers.",
		Answers: exchange.JSONReplies[api.Seeds]("the seeds"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Seeds, error) {
			s, err := n.Seeds(ctx)
			s.Seeds = append([]api.Seed{}, s.Seeds...) // [] and not null
			return s, err
		}),
	}
}

func (g *Handlers) askPeerEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "AskPeer", Path: "ask", Methods: exchange.Posting, Op: capability.Connect,
		Doc: "Asks a peer how much it has of an object, and dials it if need be.",
		Params: []exchange.Param{
			exchange.KeyParam, {Name: "peer", Doc: "a peer ID, or a multiaddr with /p2p/ID"},
		},
		Answers: exchange.JSONReplies[api.PeerHas]("what it says"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.PeerHas, error) {
			return n.AskPeer(ctx, q.Text("peer"), q.Text("key"))
		}),
	}
}

func (g *Handlers) connectEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Connect", Path: "connect", Methods: exchange.Posting, Op: capability.Connect,
		Doc:     "Dials a peer.",
		Params:  []exchange.Param{{Name: "addr", Kind: exchange.TextParam, Doc: "a multiaddr with /p2p/ID"}},
		Answers: exchange.JSONReplies[api.Peer]("the connection"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Peer, error) {
			return n.Connect(ctx, q.Text("addr"))
		}),
	}
}

func (g *Handlers) disconnectEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Disconnect", Path: "disconnect", Methods: exchange.Posting, Op: capability.Connect,
		Params:  []exchange.Param{exchange.PeerParam},
		Doc:     "Closes every connection to a peer.",
		Answers: exchange.JSONReplies[struct{}]("done"),
		Serve: serveAction(g, func(ctx context.Context, n api.Node, q exchange.Params) error {
			return n.Disconnect(ctx, q.Text("peer"))
		}),
	}
}

func (g *Handlers) pingEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Ping", Path: "ping", Methods: exchange.Posting, Op: capability.Connect,
		Doc:     "Measures one round trip to a peer.",
		Params:  []exchange.Param{{Name: "peer", Kind: exchange.TextParam, Doc: "a peer's id or multiaddr"}},
		Answers: exchange.JSONReplies[api.Pong]("the round trip"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.Pong, error) {
			return n.Ping(ctx, q.Text("peer"))
		}),
	}
}
