package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/capability"
	"allium/protocols/status"
)

func (g *Handlers) setFaultsEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "SetFaults", Path: "faults/set", Methods: exchange.Posting, Op: capability.Faults,
		Doc:     "Replaces all faults that a node of a testnet injects.",
		Body:    []exchange.Payload{exchange.JSONBody[api.Faults]()},
		Answers: exchange.JSONReplies[api.Faults]("the faults in force"), Serve: g.apiSetFaults,
	}
}

// apiSetFaults replaces the faults that the node injects. It refuses an empty body and unknown
// members, because a misspelt fault would leave the node healthy unnoticed.
func (g *Handlers) apiSetFaults(w *exchange.Response, r *http.Request, _ exchange.Input) error {
	var f api.Faults
	raw, err := g.bodies.ReadJSON(w, r, &f)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return status.Errorf(status.BadRequest,
			"cannot set the faults: the body is empty. Send them as JSON, {} for none")
	}
	if err := f.Validate(); err != nil {
		return err
	}
	f, err = g.node.SetFaults(r.Context(), f)
	if err != nil {
		return exchange.CauseOf(r.Context(), err)
	}
	return w.SendJSON(r, http.StatusOK, f)
}
