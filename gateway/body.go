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
	header func(*body)
	stall  *time.Timer // nil: nothing is waited for
	limit  time.Duration

	// What an object's header says.
	item        item
	etag        string
	known       *kind // nil: it is not known yet
	code        int
	part        byteRange
	one         [1]byteRange // what a single range is parsed into
	parts       *parts       // nil: part is what is sent
	size        int64        // of the object
	contentType string       // empty until the first bytes tell
	kinds       *kinds       // where to note it then; nil: content is of this program
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
	b := &w.content
	b.w, b.ctx, b.stall, b.limit = w, ctx, stall, limit
	return causeOf(ctx, f(b))
}

// begin sends the header, once.
func (b *body) begin() {
	if !b.w.started() {
		b.sniff(nil)
		b.header(b)
	}
}

// sniff lets the first bytes say what the content is, unless that is known.
func (b *body) sniff(first []byte) {
	if b.contentType != "" || b.kinds == nil {
		return
	}
	b.contentType = http.DetectContentType(first)
	b.kinds.add(b.item.root, b.etag, b.contentType, b.size)
}

// Write sends verified bytes. The client's slowness does not count as the
// content's.
func (b *body) Write(p []byte) (int, error) {
	if b.stall != nil {
		b.stall.Stop()
		defer b.stall.Reset(b.limit)
	}
	b.sniff(p)
	if b.part.end-b.part.start == int64(len(p)) {
		b.w.whole(len(p))
	}
	b.begin()
	return b.w.Write(p)
}
