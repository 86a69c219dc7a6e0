package admin

import (
	"context"
	"net/http"
	"reflect"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// addFileEndpoint is the verb that adds a file which the client has opened.
func addFileEndpoint(g *Handlers) exchange.Endpoint {
	return exchange.Endpoint{
		ID: "AddFile", Path: "add/file", Methods: exchange.Posting, Op: capability.Put,
		Doc: "Adds the regular file whose descriptor the client passes over the Unix socket.",
		More: "The descriptor comes with the first bytes of the request (SCM_RIGHTS) and is open for reading. The " +
			"node reads the file from its beginning. A file that changes its size meanwhile is read once more, and " +
			"is then a conflict. A request without a descriptor is unsupported; `add` takes the file as a tar.",
		Params:  exchange.ParamsOf(reflect.TypeFor[api.AddFileRequest]()),
		Answers: linesOf[api.Added, struct{}]("the added file, once it is durable"),
		Serve: func(w *exchange.Response, r *http.Request, in exchange.Input) error {
			return addFile(g, w, r, in)
		},
	}
}

// addFile adds a file of the client.
func addFile(g *Handlers, w *exchange.Response, r *http.Request, in exchange.Input) error {
	setLabel(w, &in)
	var req api.AddFileRequest
	if err := in.Query.Decode(&req); err != nil {
		return err
	}
	var known b3.Root
	if req.Root != "" {
		var err error
		if known, err = b3.Parse(req.Root); err != nil {
			return status.Errorf(status.BadRequest, "root: %w", err)
		}
	}
	if err := authorizePin(w, r, req.NoPin, req.Label); err != nil {
		return err
	}
	f := w.PassedFile()
	if f == nil {
		return status.Errorf(status.Unsupported,
			"the request has no open file: pass one over the Unix socket, or use the verb add")
	}
	defer f.Close()
	l := newLines(w, r, flushEach)
	_, err := g.runWithProgress(r.Context(), l, func(
		ctx context.Context, report api.ProgressFunc, item func(any) bool,
	) (any, error) {
		return nil, sendAdded(ctx, g.node.Add(ctx, http.NoBody, api.AddOptions{
			NoPin: req.NoPin, Label: req.Label, Target: req.Target, Count: w.LimitFiles(),
			File: &api.PassedFile{File: f, Name: req.Name, Root: known},
		}, report), item)
	})
	return l.end(struct{}{}, err)
}
