package gateway

import (
	"context"
	"net/http"
	"time"

	"allium/protocols/status"
)

// body is where a Content writes. The first write sends the header; between
// writes a timer watches that content keeps arriving.
type body struct {
	w      *response
	ctx    context.Context // of the request, and ended by the watch
	header func(first []byte)
	stall  *time.Timer
	limit  time.Duration
}

// watch runs f under the watch over content: what is not there after
// FirstByteTimeout, or stands still for as long, is timeout.
func (g *Gateway) watch(w *response, r *http.Request, f func(*body) error) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	limit := g.cfg.FirstByteTimeout
	stall := time.AfterFunc(limit, func() {
		cancel(status.Errorf(status.Timeout, "content: nothing arrived for %s; try again, or ask `allium providers` who has it", limit))
	})
	defer stall.Stop()
	return causeOf(ctx, f(&body{w: w, ctx: ctx, stall: stall, limit: limit}))
}

// begin sends the header, once.
func (b *body) begin(first []byte) {
	if !b.w.started() {
		b.header(first)
	}
}

// Write sends verified bytes. The client's slowness does not count as the
// content's.
func (b *body) Write(p []byte) (int, error) {
	b.stall.Stop()
	defer b.stall.Reset(b.limit)
	b.begin(p)
	return b.w.Write(p)
}
