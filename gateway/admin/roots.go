package admin

import (
	"net/http"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// rootsDoc documents the body of Keep and Files.
const rootsDoc = "The body is 1 to 4,096 digests, 32 bytes each."

func (g *Handlers) keepEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Keep", Path: "keep", Methods: exchange.Posting, Op: capability.Put,
		Doc:     "Reports which objects the store has whole, and marks those as used now.",
		Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
		More:    rootsDoc,
		Answers: exchange.JSONReplies[[]bool]("for each address, in order"), Serve: g.apiKeep,
	}
}

// apiKeep reports which objects the store has.
func (g *Handlers) apiKeep(w *exchange.Response, r *http.Request, _ exchange.Input) error {
	roots, err := g.readRoots(w, r)
	if err != nil {
		return err
	}
	have, err := g.node.Keep(r.Context(), roots)
	if err != nil {
		return exchange.CauseOf(r.Context(), err)
	}
	return w.SendJSON(r, http.StatusOK, have)
}

func (g *Handlers) filesEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Files", Path: "files", Methods: exchange.Posting, Op: capability.Fetch,
		Doc:     "Returns files as one tar stream, in the requested order and named by their digests.",
		Body:    []exchange.Payload{{Media: exchange.MediaBytes}},
		More:    rootsDoc,
		Answers: streamAnswers(exchange.MediaTar), Serve: g.apiFiles,
	}
}

// apiFiles streams files as tar.
func (g *Handlers) apiFiles(w *exchange.Response, r *http.Request, _ exchange.Input) error {
	roots, err := g.readRoots(w, r)
	if err != nil {
		return err
	}
	s, err := g.node.Files(r.Context(), roots)
	if err != nil {
		return exchange.CauseOf(r.Context(), err)
	}
	return sendStream(w, r, s)
}

// readRoots reads a body of 1 to api.MaxRoots digests. It returns denied if one is denied.
func (g *Handlers) readRoots(w *exchange.Response, r *http.Request) ([]b3.Root, error) {
	p, err := g.bodies.ReadSmall(w.From, r, api.MaxRoots*b3.Size)
	switch {
	case status.Of(err) == status.BodyCap:
		return nil, api.CheckRoots(api.MaxRoots + 1)
	case err != nil:
		return nil, err
	case len(p)%b3.Size != 0:
		return nil, status.Errorf(status.BadRequest,
			"cannot read the addresses: the body has %d bytes, not a multiple of %d", len(p), b3.Size)
	}
	roots := make([]b3.Root, len(p)/b3.Size)
	for i := range roots {
		roots[i] = b3.Root(p[i*b3.Size:])
	}
	if err := api.CheckRoots(len(roots)); err != nil {
		return nil, err
	}
	for _, root := range roots {
		if err := g.denylist.Object(root); err != nil {
			return nil, err
		}
	}
	return roots, nil
}
