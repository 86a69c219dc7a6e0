package gateway

import (
	"context"
	"io"
	"net/http"
	"time"

	"allium/gateway/client"
)

// apiAdd stores a tar while it arrives and answers beside it.
func (g *Gateway) apiAdd(w *response, r *http.Request, q params) error {
	if err := w.rc.EnableFullDuplex(); err != nil {
		return err
	}
	o := client.AddOptions{NoPin: q.flag("no_pin"), Label: q.text("label")}
	l := &lines{w: w, r: r, flush: live}
	_, err := g.follow(r.Context(), l, func(ctx context.Context, report client.ProgressFunc, item func(any) bool) (any, error) {
		for added, err := range g.deps.Node.Add(ctx, r.Body, o, report) {
			if err != nil {
				return nil, err
			}
			if !item(added) {
				return nil, context.Cause(ctx)
			}
		}
		return nil, nil
	})
	if err == nil {
		return l.end(struct{}{}, nil)
	}
	if !w.started() {
		g.problem(w, r, w.Header().Get("X-Corr-ID"), err)
	} else if err := l.end(nil, err); err != nil {
		return err
	}
	g.discard(w, r)
	return nil
}

// discardFor is how long a client may go on sending after its upload failed.
const discardFor = 5 * time.Second

// discard reads what a client still sends after it was told of an error: if
// the connection were closed under it, it would see that and not the error.
func (g *Gateway) discard(w *response, r *http.Request) {
	w.Header().Set("Connection", "close")
	if w.Flush() != nil || w.rc.SetReadDeadline(time.Now().Add(discardFor)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, r.Body) // until it stops, one way or the other
}

// apiFetch brings an object into the store.
func (g *Gateway) apiFetch(w *response, r *http.Request, q params) error {
	l := &lines{w: w, r: r, flush: live}
	return l.end(g.follow(r.Context(), l, func(ctx context.Context, report client.ProgressFunc, _ func(any) bool) (any, error) {
		return g.deps.Node.Fetch(ctx, q.text("key"), report)
	}))
}
