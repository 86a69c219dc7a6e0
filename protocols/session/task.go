package session

import (
	"context"
	"runtime/debug"
	"time"

	"allium/internal/ipgroup"
	"allium/internal/limits"
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
	place  *limits.Place[ipgroup.Group] // of asking; taken while it is in the queue or runs
}

func newTask(l *link, f oap.Frame, req *Request, handle Handler) *task {
	t := &task{l: l, head: f.Header, req: req, handle: handle, place: l.svc.asking.Place(l.group)}
	t.ctx, t.cancel = context.WithTimeout(l.dead, req.budget(l.svc.cfg.RequestTimeout))
	return t
}

// errBug answers a request whose handler panicked or ended its goroutine.
var errBug = status.Errorf(status.Internal, "the request failed because of a bug in this node; it was logged there")

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

// workerDied notes the end of a worker that nobody asked to end.
func (s *Service) workerDied(reason any, stack []byte) {
	s.m.deaths.Inc()
	s.log.Error("a worker died and is replaced", "panic", reason, "stack", string(stack))
}

// Workers returns how many workers are alive and how many there should be.
// They differ while Run does not run, and between the death of a worker and its
// replacement, 100 ms to 2 s later.
func (s *Service) Workers() (alive, want int) { return int(s.workers.alive.Load()), s.workers.want }

// run answers the request, also when the handler ends the goroutine. One whose
// time passed in the queue is not handled.
func (t *task) run() {
	defer t.l.svc.ingress.Done(t.l.peer.id)
	r := Response{Err: errBug}
	defer func() { t.finish(r) }()
	if t.ctx.Err() != nil {
		t.l.svc.m.expired.Inc()
		r.Err = status.Errorf(status.Timeout, "the deadline passed while the request waited")
		return
	}
	r = t.call()
}

// finish queues the answer; where making it panics (an error of the handler's
// own type, say), one that says so.
func (t *task) finish(r Response) {
	defer t.l.leave()
	defer t.cancel()
	t.settle()
	answered := false
	defer func() {
		if !answered {
			t.l.reply(oap.Frame{Header: t.head}, nil, errBug, true)
		}
	}()
	t.l.reply(oap.Frame{Header: t.head}, r.Payload, r.Err, true)
	answered = true
}

// settle takes the request out of flight.
func (t *task) settle() {
	l := t.l
	l.mu.Lock()
	delete(l.flight, t.head.CorrID)
	l.lastActive = time.Now()
	l.mu.Unlock()
	t.place.Leave()
	l.places.Release()
}

// call runs the handler; a panic is a bug that costs one request.
func (t *task) call() (r Response) {
	defer func() {
		if p := recover(); p != nil {
			t.l.svc.m.panics.Inc()
			t.l.svc.log.Error("request handler panicked", "proto", t.head.Proto, "op", t.req.Op, "panic", p, "stack", string(debug.Stack()))
			r = Response{Err: errBug}
		}
	}()
	return t.handle(t.ctx, t.l.peer.id, t.req)
}
