package session

import (
	"context"
	"time"

	"allium/internal/guard"
	"allium/internal/ipgroup"
	"allium/internal/limits"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// task is one request of a peer, from the queue until its answer.
type task struct {
	l      *link
	head   oap.Header
	req    *Request
	handle Handler
	ctx    context.Context
	cancel context.CancelFunc
	place  *limits.Place[ipgroup.Group] // place in Service.asking, while the task waits or runs
}

func newTask(l *link, f oap.Frame, req *Request, handle Handler) *task {
	t := &task{l: l, head: f.Header, req: req, handle: handle, place: l.svc.asking.Place(l.group)}
	t.ctx, t.cancel = context.WithTimeout(l.dead, req.budget(l.cfg.RequestTimeout))
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

// workerDied counts and logs the unexpected end of a worker.
func (s *Service) workerDied(reason any, stack []byte) {
	s.m.deaths.Inc()
	s.log.Error("a worker died and is replaced", "panic", reason, "stack", string(stack))
}

// Workers returns the number of live workers and the configured number. They differ
// while Run does not run, and for 100 ms to 2 s between the death of a worker and its
// replacement.
func (s *Service) Workers() (alive, want int) { return int(s.workers.alive.Load()), s.workers.size }

// run handles the request and queues its answer. It answers even if the handler calls
// runtime.Goexit. If the deadline passed in the queue, it answers timeout without
// calling the handler.
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

// finish queues the answer. If encoding the answer panics, for example in the Error
// method of the handler's error, it queues errBug.
func (t *task) finish(r Response) {
	defer t.l.leave()
	defer t.cancel()
	t.removeFromFlight()
	answered := false
	defer func() {
		if !answered {
			t.l.reply(oap.Frame{Header: t.head}, nil, errBug, true)
		}
	}()
	t.l.reply(oap.Frame{Header: t.head}, r.Payload, r.Err, true)
	answered = true
}

// removeFromFlight removes the request from the requests in flight.
func (t *task) removeFromFlight() {
	l := t.l
	l.mu.Lock()
	delete(l.requests, t.head.CorrID)
	l.lastActive = time.Now()
	l.mu.Unlock()
	t.place.Leave()
	l.places.Leave()
}

// call runs the handler. A panic of the handler becomes errBug.
func (t *task) call() Response {
	r := Response{Err: errBug}
	g := guard.Guard{Log: t.l.svc.log, Panics: t.l.svc.m.panics}
	_ = g.Run("a request handler panicked", func() error {
		r = t.handle(t.ctx, t.l.peer.id, t.req)
		return nil
	}, func() []any { return []any{"proto", t.head.Proto, "op", t.req.Op} })
	return r
}
