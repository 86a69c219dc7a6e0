package gateway

import (
	"net/http"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// apiKeep says which objects the store holds.
func (g *Gateway) apiKeep(w *response, r *http.Request, _ input) error {
	roots, err := g.readRoots(r)
	if err != nil {
		return err
	}
	have, err := g.deps.Node.Keep(r.Context(), roots)
	if err != nil {
		return causeOf(r.Context(), err)
	}
	return sendJSON(w, r, http.StatusOK, have)
}

// apiFiles streams files as tar.
func (g *Gateway) apiFiles(w *response, r *http.Request, _ input) error {
	roots, err := g.readRoots(r)
	if err != nil {
		return err
	}
	s, err := g.deps.Node.Files(r.Context(), roots)
	if err != nil {
		return causeOf(r.Context(), err)
	}
	return sendStream(w, r, s)
}

// readRoots reads a request body of digests, none of which is denied: nothing of
// it is kept beyond client.MaxRoots of them.
func (g *Gateway) readRoots(r *http.Request) ([]b3.Root, error) {
	p, err := g.readSmall(r, client.MaxRoots*b3.Size)
	switch {
	case status.Of(err) == status.BodyCap:
		return nil, client.CheckRoots(client.MaxRoots + 1)
	case err != nil:
		return nil, err
	case len(p)%b3.Size != 0:
		return nil, status.Errorf(status.BadRequest, "the addresses have %d bytes, which is no multiple of %d", len(p), b3.Size)
	}
	roots := make([]b3.Root, len(p)/b3.Size)
	for i := range roots {
		roots[i] = b3.Root(p[i*b3.Size:])
	}
	if err := client.CheckRoots(len(roots)); err != nil {
		return nil, err
	}
	for _, root := range roots {
		if err := g.denied(root); err != nil {
			return nil, err
		}
	}
	return roots, nil
}
