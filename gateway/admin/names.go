package admin

import (
	"context"
	"net/http"
	"strings"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/address"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

func (g *Handlers) publishNameEndpoint() exchange.Endpoint {
	return mutationAt(g, exchange.Endpoint{
		ID: "PublishName", Name: "api/name/publish", Path: apiPath + "name/publish", Op: capability.Publish,
		Target: exchange.TargetByHandler,
		Doc:    "Signs a record of a name in an own zone, writes it, and sends it to the peers.",
	}, "the name, and how many peers took the record; the node sends a record again that none took",
		func(r *api.PublishRequest) subject {
			if key, ok := address.Digits(r.Value); ok {
				r.Value = key
			}
			key := ""
			if strings.HasPrefix(r.Value, "b3:") {
				key = r.Value
			}
			return subject{name: &r.Name, key: key}
		},
		func(ctx context.Context, n api.Node, r api.PublishRequest) (api.OwnName, error) {
			return n.PublishName(ctx, r)
		})
}

func (g *Handlers) withdrawNameEndpoint() exchange.Endpoint {
	return mutationAt(g, exchange.Endpoint{
		ID: "WithdrawName", Name: "api/name/withdraw", Path: apiPath + "name/withdraw", Op: capability.Publish,
		Target: exchange.TargetByHandler,
		Doc:    "Publishes that a name has no value any more.",
	}, "the name, and how many peers took the record",
		func(r *api.WithdrawRequest) subject { return subject{name: &r.Name} },
		func(ctx context.Context, n api.Node, r api.WithdrawRequest) (api.OwnName, error) {
			return n.WithdrawName(ctx, r)
		})
}

func (g *Handlers) ownNamesEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "OwnNames", Path: "name/ls", Methods: exchange.Getting,
		Doc:     "Lists the names that the node publishes.",
		Answers: lineAnswers[api.OwnName, struct{}]("the names, in the order of their zones and labels"),
		Serve: func(w *exchange.Response, r *http.Request, _ exchange.Input) error {
			return sendSeq(w, r, flushBuffered, g.node.OwnNames(r.Context()))
		},
	}
}

func (g *Handlers) expandNameEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "ExpandName", Path: "name/expand", Methods: exchange.Getting,
		Doc: "Returns a name with the key of its zone.",
		Params: []exchange.Param{{
			Name: "name", Kind: exchange.TextParam,
			Doc: "LABEL.ZONE, where ZONE is a key or a short name; or LABEL in the only own zone",
		}},
		Answers: exchange.JSONReplies[api.ExpandedName]("the name"),
		Serve: serveValue(g, func(ctx context.Context, n api.Node, q exchange.Params) (api.ExpandedName, error) {
			full, err := n.ExpandName(ctx, q.Text("name"))
			return api.ExpandedName{Name: full}, err
		}),
	}
}

// authorizeName returns the name that text stands for, with the key of its zone, if the capability
// of the request allows op on it, and on the object that is its new value. A value that is no whole
// address is no object.
func (g *Handlers) authorizeName(
	w *exchange.Response, r *http.Request, op capability.Op, text, value string,
) (string, error) {
	full, err := g.node.ExpandName(r.Context(), text)
	if err != nil {
		return "", exchange.CauseOf(r.Context(), err)
	}
	ask := capability.Request{Op: op, Name: full, Recursive: true}
	if root, err := b3.Parse(value); err == nil {
		ask.Object = root
	}
	return full, w.Authorize(r, ask)
}
