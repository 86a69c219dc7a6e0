package session

import (
	"context"
	"runtime/debug"

	"allium/protocols/oap"
	"allium/protocols/status"
)

// task is one request on its way to a worker and back.
type task struct {
	l      *link
	head   oap.Header
	req    *Request
	handle Handler
	ctx    context.Context
	cancel context.CancelFunc
}

func newTask(l *link, f oap.Frame, req *Request, handle Handler) *task {
	t := &task{l: l, head: f.Header, req: req, handle: handle}
	t.ctx, t.cancel = context.WithTimeout(l.dead, req.budget(l.svc.cfg.RequestTimeout))
	return t
}

// work runs tasks until ctx ends.
func (s *Service) work(ctx context.Context) {
	for {
		t, err := s.ingress.Get(ctx)
		if err != nil {
			return
		}
		t.run()
	}
}

// run answers the request. One whose time passed in the queue is not handled.
func (t *task) run() {
	defer t.l.leave()
	defer t.cancel()
	var r Response
	if t.ctx.Err() != nil {
		t.l.svc.m.expired.Inc()
		r.Err = status.Errorf(status.Timeout, "the deadline passed while the request waited")
	} else {
		r = t.call()
	}
	t.l.settle(t.head.CorrID)
	t.l.reply(oap.Frame{Header: t.head}, r.Payload, r.Err, true)
}

// call runs the handler; a panic is a bug that costs one request.
func (t *task) call() (r Response) {
	defer func() {
		if p := recover(); p != nil {
			t.l.svc.m.panics.Inc()
			t.l.svc.log.Error("request handler panicked", "proto", t.head.Proto, "op", t.req.Op, "panic", p, "stack", string(debug.Stack()))
			r = Response{Err: status.Errorf(status.Internal, "the request failed because of a bug in this node; it was logged there")}
		}
	}()
	return t.handle(t.ctx, t.l.peer.id, t.req)
}
