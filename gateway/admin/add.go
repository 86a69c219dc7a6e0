package admin

import (
	"context"
	"iter"
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
		Answers: linesOf[api.Added, struct{}]("each added entry, once it is durable"),
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
	if err := authorizePin(w, r, o.NoPin, o.Label); err != nil {
		return err
	}
	if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
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
		return nil, sendAdded(ctx, g.node.Add(ctx, w.LimitBody(r.Body), o, report), item)
	})
	if end := l.end(struct{}{}, err); end != nil || err == nil {
		return end
	}
	w.Discard(r)
	return nil
}

// authorizePin returns an error if the request's capability does not allow the pins of an add.
func authorizePin(w *exchange.Response, r *http.Request, noPin bool, label string) error {
	if noPin {
		return nil
	}
	return w.Authorize(r, capability.Request{Op: capability.Pin, Label: label, Bytes: -1})
}

// sendAdded sends what was added.
func sendAdded(ctx context.Context, all iter.Seq2[api.Added, error], item func(any) bool) error {
	for added, err := range all {
		if err != nil {
			return err
		}
		if !item(added) {
			return context.Cause(ctx)
		}
	}
	return nil
}
