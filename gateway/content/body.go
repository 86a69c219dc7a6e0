package content

import (
	"context"
	"net/http"
	"sync"
	"time"

	"allium/gateway/content/byterange"
	"allium/gateway/content/headers"
	"allium/gateway/content/mediatype"
	"allium/gateway/exchange"
	"allium/internal/patience"
	"allium/protocols/status"
)

// body is the writer that a Content copies to. Its first write sends the header. Between
// writes a timer cancels ctx when the content stalls. It belongs to the handler's goroutine.
type body struct {
	w      *exchange.Response
	ctx    context.Context // the request's, canceled when the content stalls too
	header func(*body)     // sends the header
	stall  stall
	objectFields
}

// objectFields holds what the header of an answer says about an object.
type objectFields struct {
	item        item
	etag        string
	cached      *headers.Header // nil: the header is not in the cache
	code        int
	part        byterange.Range    // the range to send, if multipart is nil
	rangeBuf    [1]byterange.Range // saves an allocation for a single range
	multipart   *multipart         // nil: the answer has one part
	size        int64              // of the object
	contentType string             // empty until the first bytes are sniffed
	headers     *headers.Cache     // where sniff stores the type; nil: nothing is sniffed
}

// stall is the timer of a content that may stall. The zero value has none.
type stall struct {
	timeout time.Duration // patience.Wait, or longer, once the header was sent
	timer   *time.Timer   // nil until mayStall starts it
	cancel  context.CancelCauseFunc
}

// pause stops the timer until resume, if there is one.
func (s *stall) pause() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

func (s *stall) resume() {
	if s.timer != nil {
		s.timer.Reset(s.timeout)
	}
}

// bodyPool saves an allocation for each request.
var bodyPool = sync.Pool{New: func() any { return new(body) }}

// newBody returns a body for an answer. The caller calls free when it is done.
func newBody(ctx context.Context, w *exchange.Response) *body {
	b := bodyPool.Get().(*body)
	b.w, b.ctx = w, ctx
	return b
}

func (b *body) free() {
	if b.stall.pause(); b.stall.cancel != nil {
		b.stall.cancel(nil)
	}
	*b = body{}
	bodyPool.Put(b)
}

// withStallTimeout runs f with a body whose content may not stall. When no byte arrives
// for FirstByteTimeout, it cancels the body's context and returns timeout. An answer that has begun
// rides out a pause of its sources: then no byte may arrive for patience.Wait.
func (g *Handlers) withStallTimeout(w *exchange.Response, r *http.Request, f func(*body) error) error {
	b := newBody(r.Context(), w)
	defer b.free()
	b.stall.timeout = g.live.Load().FirstByteTimeout
	err := f(b)
	return exchange.CauseOf(b.ctx, err)
}

// mayStall starts the stall timer, unless it runs, and returns the body's context. Content in RAM cannot stall and
// needs no timer.
func (b *body) mayStall() context.Context {
	if b.stall.timer == nil {
		root, limit := b.w.Root, b.stall.timeout
		ctx, cancel := context.WithCancelCause(patience.With(b.ctx))
		b.ctx, b.stall.cancel = ctx, cancel
		b.stall.timer = time.AfterFunc(limit, func() {
			cancel(status.Errorf(status.Timeout, "cannot serve %s: no byte of it arrived for %s. "+
				"Try again, or list the peers that provide it with `allium providers`", shorten(root), limit))
		})
	}
	return b.ctx
}

// begin sends the header, unless it was sent.
func (b *body) begin() {
	if !b.w.Started() {
		b.sniff(nil)
		b.header(b)
		b.stall.timeout = max(b.stall.timeout, patience.Wait)
		patience.Begin(b.ctx)
	}
}

// sniff derives the content type from the first bytes, unless it is known.
func (b *body) sniff(first []byte) {
	if b.contentType != "" || b.headers == nil {
		return
	}
	found := b.headers.Add(b.item.root, exchange.ETag(b.item.root), first, b.size)
	b.contentType = found.ContentType(mediatype.OfName(b.item.name))
}

// Write sends verified bytes. The stall timer stops during the write, because a slow client
// is not a stalled content.
func (b *body) Write(p []byte) (int, error) {
	b.stall.pause()
	defer b.stall.resume()
	b.sniff(p)
	if !b.w.Started() {
		if err := b.w.StartTransfer(len(p)); err != nil {
			return 0, err
		}
		b.begin()
	}
	return b.w.Write(p)
}
