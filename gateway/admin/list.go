package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

func (g *Handlers) listEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "List", Path: "ls", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam, askParam},
		Doc:     "Lists the entries of a directory in bytewise order of their names.",
		Answers: lineAnswers[api.Entry, struct{}]("the entries"),
		Serve:   g.apiList,
	}
}

// apiList lists a directory.
func (g *Handlers) apiList(w *exchange.Response, r *http.Request, in exchange.Input) error {
	node, err := g.asking(w, r, in)
	if err != nil {
		return err
	}
	return sendSeq(w, r, flushBuffered, node.List(r.Context(), in.Query.Text("key")))
}

func (g *Handlers) diffEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Diff", Path: "diff", Methods: exchange.Getting,
		Doc: "Lists the entries that differ between two keys.",
		Params: []exchange.Param{
			{Name: "from", Doc: "a key; empty: nothing"}, {Name: "to", Doc: "a key; empty: nothing. One of the two is needed"},
		},
		Answers: lineAnswers[api.Change, struct{}]("the entries that differ"),
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			from, to := in.Query.Text("from"), in.Query.Text("to")
			if from == "" && to == "" {
				return status.Errorf(status.BadRequest, "cannot compare: neither from nor to has a key. Give at least one")
			}
			return sendSeq(w, r, flushBuffered, g.node.Diff(r.Context(), from, to))
		},
	}
}
