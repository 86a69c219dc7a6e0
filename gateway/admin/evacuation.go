package admin

import (
	"context"
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
)

func (g *Handlers) evacuateEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Evacuate", Path: "evacuate", Methods: exchange.Posting, Op: capability.Drain,
		Doc: "Hands the node's copies over to other members of its cluster, and says how far that is until none is needed " +
			"here. The node goes on when the client leaves, and after a restart.",
		Answers: lineAnswers[api.Evacuation, struct{}]("how far it is, about once a second"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error {
			return sendSeq(w, r, flushEach, g.node.Evacuate(r.Context()))
		},
	}
}

func (g *Handlers) resumeCopiesEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "ResumeCopies", Path: "durability/resume", Methods: exchange.Posting, Op: capability.Repair,
		Doc: "Ends the time in which the node sends only last copies because more than a third of the members vanished " +
			"together: those that are silent now do not come back.",
		Answers: exchange.JSONReplies[api.Resumed]("how many members are silent"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, _ exchange.Params) (api.Resumed, error) {
			return n.ResumeCopies(ctx)
		}),
	}
}

func (g *Handlers) stopEvacuationEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "StopEvacuation", Path: "evacuate/stop", Methods: exchange.Posting, Op: capability.Drain,
		Doc:     "Ends an evacuation: the node is a full member of its cluster again.",
		Answers: exchange.JSONReplies[struct{}]("it is a full member"),
		Serve: serveAction(g, func(ctx context.Context, n api.Node, _ exchange.Params) error {
			return n.StopEvacuation(ctx)
		}),
	}
}
