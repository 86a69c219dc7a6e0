package gateway

import (
	"net/http"

	"allium/gateway/client"
)

// apiSetFaults replaces what the node does wrong on purpose. A misspelt fault is
// refused: it must not look like a healthy node.
func (g *Gateway) apiSetFaults(w *response, r *http.Request, _ input) error {
	var f client.Faults
	if err := g.readJSON(r, &f); err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return err
	}
	f, err := g.deps.Node.SetFaults(r.Context(), f)
	if err != nil {
		return causeOf(r.Context(), err)
	}
	return sendJSON(w, r, http.StatusOK, f)
}
