package gateway

import (
	"context"
	"io"
	"net/http"
	"time"

	"allium/gateway/client"
	"allium/protocols/capability"
)

// apiAdd stores a tar while it arrives and answers beside it. The header goes
// out at once: a client that has it hears at once when the node goes away, also
// while it waits for its own input.
func (g *Gateway) apiAdd(w *response, r *http.Request, in input) error {
	o := client.AddOptions{NoPin: in.q.flag("no_pin"), Label: in.q.text("label")}
	if !o.NoPin {
		if err := g.allows(w, r, capability.Ask{Op: capability.Pin, Label: o.Label, Bytes: -1}); err != nil {
			return err
		}
	}
	if err := w.rc.EnableFullDuplex(); err != nil {
		return err
	}
	if w.body != nil { // what may follow a tar is no request, and is not waited for
		w.Header().Set("Connection", "close")
		defer w.leaveBody(r)
	}
	l := &lines{w: w, r: r, flush: live}
	if err := l.begin(); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := g.follow(r.Context(), l, func(ctx context.Context, report client.ProgressFunc, item func(any) bool) (any, error) {
		for added, err := range g.deps.Node.Add(ctx, w.within(r.Body), o, report) {
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
	discard(w, r)
	return nil
}

// discardFor is how long a client may go on sending after its upload failed.
const discardFor = 5 * time.Second

// discard reads what a client still sends after it was told of an error: if
// the connection were closed under it, it would see that and not the error.
func discard(w *response, r *http.Request) {
	until, body := time.Now().Add(discardFor), r.Body
	if w.rc.SetReadDeadline(until) != nil {
		return
	}
	if b := w.body; b != nil { // whose reads would put it off
		b.setDeadline(until)
		body = b.r.Body
	}
	_, _ = io.Copy(io.Discard, body) // until it stops, one way or the other
}

// apiFetch brings an object into the store.
func (g *Gateway) apiFetch(w *response, r *http.Request, in input) error {
	l := &lines{w: w, r: r, flush: live}
	return l.end(g.follow(r.Context(), l, func(ctx context.Context, report client.ProgressFunc, _ func(any) bool) (any, error) {
		return g.deps.Node.Fetch(ctx, in.q.text("key"), report)
	}))
}
