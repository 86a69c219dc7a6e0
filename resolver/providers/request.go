package providers

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
)

// AddAddrs tells the dialer the addresses of a peer.
func (p *Pool) AddAddrs(a peer.AddrInfo) { p.dialer.AddAddrs(a) }

// moved tells the dialer where peers were found that the list has already: they may have moved.
func moved(d Dialer, again []candidate) {
	for _, c := range again {
		if len(c.Addrs) > 0 {
			d.AddAddrs(c.AddrInfo)
		}
	}
}

// Redial lets the next request to a peer dial it, although dials have failed just now.
func (p *Pool) Redial(id peer.ID) {
	p.dialer.Redial(id)
	p.peers.probe(id)
}

// Reached says that a peer is connected. If it could not be reached before, it may be asked at once.
func (p *Pool) Reached(id peer.ID) { p.peers.reached(id) }

// Failed counts and logs that a request to a peer failed.
func (p *Pool) Failed(root b3.Root, by peer.ID, lookupID string, err error) {
	o := status.Of(err)
	p.m.failures.WithLabelValues(o.String()).Inc()
	p.log.Debug("provider failed", "root", root, "peer", by, "lookup_id", lookupID, "reason", o, "err", err)
}

// Retried counts that one peer, or all peers, will be asked again after a pause.
func (p *Pool) Retried() { p.m.retries.Inc() }

// Get sends one request to one peer. It waits for a place in the peer's gate and
// asks the peer's breaker. A watchdog ends the request when nothing verified
// arrives for Config.StallTimeout, waits for this node's own rate left out. Get
// calls sent when the request goes out. An error of the sink is returned as it is.
func (p *Pool) Get(ctx context.Context, id peer.ID, req object.GetRequest, sink object.Sink, sent func()) error {
	done, err := p.peers.enter(ctx, id)
	if err != nil {
		return err
	}
	verdict := errUnjudged // stays so if the sink panics
	defer func() { done(verdict) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sent()
	w := &watched{sink: sink, timeout: p.cfg.Load().StallTimeout}
	if req.SizeProof {
		w.groups = -1
	}
	req.Waiting = w.paused
	w.timer = time.AfterFunc(w.timeout, func() {
		cancel(status.Errorf(status.Timeout, "no progress for %s", w.timeout))
	})
	defer w.timer.Stop()
	err = p.client.Get(ctx, id, req, w)
	switch cause := context.Cause(ctx); {
	case w.err != nil:
		err = w.err
	case err != nil && cause != nil && status.Of(cause) == status.Timeout:
		err = cause
	}
	if verdict = err; w.groups > 0 && status.Of(err) != status.Corrupt {
		verdict = nil // the peer delivered verified bytes before it failed
	}
	return err
}

// Held asks a peer how much it has of root, and which of the groups [from, to) if it is a part. A peer that does not
// know the question has no groups to offer.
func (p *Pool) Held(ctx context.Context, id peer.ID, root b3.Root, from, to int64) (b3.Presence, []byte, error) {
	asking, cancel := context.WithTimeout(ctx, p.cfg.Load().StallTimeout)
	defer cancel()
	present, groups, err := p.client.Held(asking, id, root, from, to)
	if status.Of(err) == status.BadRequest {
		present, err = have(asking, p.client, id, root)
	}
	return present, groups, err
}

// have asks a peer how much it has of root.
func have(ctx context.Context, client Client, id peer.ID, root b3.Root) (b3.Presence, error) {
	got, err := client.Have(ctx, id, []b3.Root{root})
	if err != nil {
		return b3.Absent, err
	}
	return got[0], nil
}

var errUnjudged = Final(status.Errorf(status.Internal, "the request did not end"))

// watched forwards the calls of a sink. It stops the watchdog while the sink works or the
// request waits for this node's own download rate, and keeps the error of the sink.
type watched struct {
	sink    object.Sink
	timer   *time.Timer // the watchdog
	timeout time.Duration
	groups  int // groups received, not counting the one of a size proof
	err     error
}

func (w *watched) Begin(i int, size int64) error {
	return w.call(func() error { return w.sink.Begin(i, size) })
}

func (w *watched) Item(i int, p b3.Proved) error {
	if !p.IsParent() {
		w.groups++
	}
	return w.call(func() error { return w.sink.Item(i, p) })
}

func (w *watched) End(i int, err error) error {
	return w.call(func() error { return w.sink.End(i, err) })
}

func (w *watched) call(f func() error) error {
	err := w.paused(f)
	if err != nil {
		w.err = err
	}
	return err
}

// paused runs f and gives the peer the whole time again.
func (w *watched) paused(f func() error) error {
	w.timer.Stop()
	defer w.timer.Reset(w.timeout)
	return f()
}
