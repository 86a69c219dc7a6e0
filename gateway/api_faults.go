package gateway

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"allium/gateway/client"
	"allium/protocols/status"
)

// apiSetFaults replaces what the node does wrong on purpose. A misspelt fault is
// refused: it must not look like a healthy node.
func (g *Gateway) apiSetFaults(w *response, r *http.Request, _ input) error {
	f, err := readFaults(r)
	if err != nil {
		return err
	}
	f, err = g.deps.Node.SetFaults(r.Context(), f)
	if err != nil {
		return causeOf(r.Context(), err)
	}
	return sendJSON(w, r, http.StatusOK, f)
}

func readFaults(r *http.Request) (f client.Faults, err error) {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, client.MaxFaultsBody))
	d.DisallowUnknownFields()
	err = d.Decode(&f)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the value")
		}
	}
	if err != nil {
		return f, causeOf(r.Context(), status.Errorf(status.BadRequest, "the faults cannot be read: %w", err))
	}
	return f, f.Validate()
}
