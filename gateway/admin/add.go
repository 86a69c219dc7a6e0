package admin

import (
	"context"
	"net/http"
	"reflect"

	"allium/gateway/api"
	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/capability"
)

func (g *Handlers) addEndpoint() exchange.Endpoint {
	return exchange.Endpoint{
		ID: "Add", Path: "add", Methods: exchange.Posting, Op: capability.Put,
		Doc: "Stores a tar stream and adds each entry at its top level. Entries may come in any order; of several " +
			"with one path the last counts.",
		Params:  exchange.ParamsOf(reflect.TypeFor[api.AddOptions]()),
		Headers: []string{api.HeaderRoots},
		Body:    []exchange.Payload{{Media: exchange.MediaTar}},
		Answers: linesOf[api.Added, struct{}]("what was added, each once it is durable"),
		Serve:   g.apiAdd,
	}
}

// apiAdd stores a tar while it arrives, and sends results at the same time. It sends the header
// at once, so that a client that still waits for its own input notices when the node stops.
func (g *Handlers) apiAdd(w *exchange.Response, r *http.Request, in exchange.Input) error {
	setLabel(w, &in)
	o := api.AddOptions{Count: w.LimitFiles()}
	if err := in.Query.Decode(&o); err != nil {
		return err
	}
	if !o.NoPin {
		if err := w.Authorize(r, capability.Request{Op: capability.Pin, Label: o.Label, Bytes: -1}); err != nil {
			return err
		}
	}
	if err := w.FullDuplex(); err != nil {
		return err
	}
	if w.ReadsBody() { // bytes after the end of the tar are no request
		w.Header().Set("Connection", "close")
		defer w.AbandonBody(r)
	}
	l := newLines(w, r, flushEach)
	if l.shape == asLines { // an array begins with an item, so that an earlier error is a problem
		if err := l.begin(); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	_, err := g.runWithProgress(r.Context(), l, func(
		ctx context.Context, report api.ProgressFunc, item func(any) bool,
	) (any, error) {
		if r.Header.Get(api.HeaderRoots) == "true" {
			o.Roots = func(roots []b3.Root) { item(roots) } // the context ends an add whose client is gone
		}
		for added, err := range g.node.Add(ctx, w.LimitBody(r.Body), o, report) {
			if err != nil {
				return nil, err
			}
			if !item(added) {
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	})
	if end := l.end(struct{}{}, err); end != nil || err == nil {
		return end
	}
	w.Discard(r)
	return nil
}
