package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
)

func (g *Handlers) statEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Stat", Path: "stat", Methods: exchange.Getting, Params: []exchange.Param{exchange.KeyParam, askParam},
		Doc:     "Describes an object, and whether the node has it.",
		Answers: exchange.JSONReplies[api.Stat]("the object"),
		Serve:   g.apiStat,
	}
}

// apiStat describes an object.
func (g *Handlers) apiStat(w *exchange.Response, r *http.Request, in exchange.Input) error {
	node, err := g.asking(w, r, in)
	if err != nil {
		return err
	}
	st, err := node.Stat(r.Context(), in.Query.Text("key"))
	if err != nil {
		return exchange.CauseOf(r.Context(), err)
	}
	return w.SendJSON(r, http.StatusOK, st)
}
