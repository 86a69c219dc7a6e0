package gateway

import (
	"net/http"

	"allium/gateway/client"
	"allium/protocols/status"
)

// apiSetFaults replaces what the node does wrong on purpose. A misspelt fault, or
// none at all, is refused: it must not look like a healthy node.
func (g *Gateway) apiSetFaults(w *response, r *http.Request, _ input) error {
	raw, f, err := readJSON[client.Faults](g, w, r)
	if err != nil {
		return err
	}
	if len(raw) == 0 {
		return status.Errorf(status.BadRequest, "the body is empty; send the faults as JSON, {} for none")
	}
	if err := f.Validate(); err != nil {
		return err
	}
	f, err = g.deps.Node.SetFaults(r.Context(), f)
	if err != nil {
		return causeOf(r.Context(), err)
	}
	return sendJSON(w, r, http.StatusOK, f)
}
