package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// apiSetFaults replaces what the node does wrong on purpose. A misspelt fault, or
// none at all, is refused: it must not look like a healthy node.
func (g *Handlers) apiSetFaults(w *exchange.Response, r *http.Request, _ exchange.Input) error {
	raw, f, err := exchange.ReadJSON[api.Faults](g.bodies, w, r)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return status.Errorf(status.BadRequest, "the body is empty; send the faults as JSON, {} for none")
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
