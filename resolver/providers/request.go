package providers

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
)

// AddAddrs tells the dialer how to reach a peer.
func (p *Pool) AddAddrs(a peer.AddrInfo) { p.dialer.AddAddrs(a) }

// Failed counts and logs that a request to a peer failed.
func (p *Pool) Failed(root b3.Root, by peer.ID, lookupID string, err error) {
	o := status.Of(err)
	p.m.failures.WithLabelValues(o.String()).Inc()
	p.log.Debug("provider failed", "root", root, "peer", by, "lookup_id", lookupID, "reason", o, "err", err)
}

// Retried counts that a peer, or all peers, will be asked again after a pause.
func (p *Pool) Retried() { p.m.retries.Inc() }

// Get sends one request to one peer, in its turn, behind the peer's breaker and
// under a watchdog that ends it when nothing verified arrives for
// Config.StallTimeout. sent is called when the request goes out. An error of the
// sink is returned as it is.
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
	w := &watched{sink: sink, patience: p.cfg.StallTimeout}
	if req.SizeProof {
		w.groups = -1
	}
	w.dog = time.AfterFunc(w.patience, func() {
		cancel(status.Errorf(status.Timeout, "no progress for %s", w.patience))
	})
	defer w.dog.Stop()
	err = p.client.Get(ctx, id, req, w)
	switch cause := context.Cause(ctx); {
	case w.err != nil:
		err = w.err
	case err != nil && cause != nil && status.Of(cause) == status.Timeout:
		err = cause
	}
	if verdict = err; w.groups > 0 && status.Of(err) != status.Corrupt {
		verdict = nil // it was of use, whatever came then
	}
	return err
}

// Have asks a peer how much it has of root.
func (p *Pool) Have(ctx context.Context, id peer.ID, root b3.Root) (b3.Presence, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.StallTimeout)
	defer cancel()
	got, err := p.client.Have(ctx, id, []b3.Root{root})
	if err != nil {
		return b3.Absent, err
	}
	return got[0], nil
}

var errUnjudged = Final(status.Errorf(status.Internal, "resolver: the request did not end"))

// watched passes a sink's calls on, holds the watchdog off while the sink works
// and keeps the error the sink stopped with.
type watched struct {
	sink     object.Sink
	dog      *time.Timer
	patience time.Duration
	groups   int // that came, the one of a size proof left out
	err      error
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
	w.dog.Stop()
	err := f()
	w.dog.Reset(w.patience)
	if err != nil {
		w.err = err
	}
	return err
}
