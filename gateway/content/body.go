package content

import (
	"context"
	"net/http"
	"sync"
	"time"

	"allium/gateway/exchange"
	"allium/protocols/status"
)

// body is where a Content writes. The first write sends the header; between
// writes a timer watches that content keeps arriving.
type body struct {
	w      *exchange.Response
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

// bodyPool saves an allocation for each object that is served.
var bodyPool = sync.Pool{New: func() any { return new(body) }}

// newBody returns the body of an answer, until it is freed.
func newBody(ctx context.Context, w *exchange.Response) *body {
	b := bodyPool.Get().(*body)
	b.w, b.ctx = w, ctx
	return b
}

func (b *body) free() {
	*b = body{}
	bodyPool.Put(b)
}

// watch runs f under the watch over content: what is not there after
// FirstByteTimeout, or stands still for as long, is timeout.
func (g *Handlers) watch(w *exchange.Response, r *http.Request, f func(*body) error) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	limit := g.cfg.FirstByteTimeout
	stall := time.AfterFunc(limit, func() {
		cancel(status.Errorf(status.Timeout, "content: nothing arrived for %s; try again, or ask `allium providers` who has it", limit))
	})
	defer stall.Stop()
	b := newBody(ctx, w)
	defer b.free()
	b.stall, b.limit = stall, limit
	return exchange.CauseOf(ctx, f(b))
}

// begin sends the header, once.
func (b *body) begin() {
	if !b.w.Started() {
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
		b.w.Whole(len(p))
	}
	if err := b.w.Underway(len(p)); err != nil {
		return 0, err
	}
	b.begin()
	return b.w.Write(p)
}
