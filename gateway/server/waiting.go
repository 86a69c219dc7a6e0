package server

import (
	"net/http"
	"net/netip"
	"slices"
	"time"

	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// waiting bounds the requests that wait for a token of the rate, and the bytes of their headers. A client may take more
// only while it has less than a quarter of what is free. So it gets at most a fifth of either, and others can still
// wait.
type waiting struct {
	places *limits.FairGate[netip.Prefix]
	bytes  *limits.FairGate[netip.Prefix]
}

// fairPart makes a client have at most a fifth of the places.
const fairPart = 4

func newWaiting(cfg Config, r *limits.Registry) waiting {
	spec := func(name string) limits.Spec {
		return limits.Spec{
			Name: name, Path: "public listener → gateway.rate",
			Policy: "reject: 429 rate_limit; a client has at most a fifth while others are free",
		}
	}
	return waiting{
		limits.NewFairGate[netip.Prefix](r, spec("gateway.rate_waiting"), cfg.RateWaiting, fairPart),
		limits.NewFairBytes[netip.Prefix](r, spec("gateway.rate_waiting_bytes"), int64(cfg.RateWaitingBytes), fairPart),
	}
}

// enter takes a place for a request of client, if there is one. The caller calls leave.
func (l waiting) enter(client netip.Prefix, r *http.Request) (leave func(), ok bool) {
	n := headerBytes(r)
	if l.places.Enter(client) != nil {
		return nil, false
	}
	if l.bytes.EnterN(client, n) != nil {
		l.places.Leave(client)
		return nil, false
	}
	return func() { l.bytes.LeaveN(client, n); l.places.Leave(client) }, true
}

// headerBytes returns about how many bytes the header of a request takes.
func headerBytes(r *http.Request) int64 {
	n := len(r.RequestURI) + len(r.Host)
	for key, values := range r.Header {
		n += len(key)
		for _, v := range values {
			n += len(v)
		}
	}
	return int64(max(1, n))
}

// takeToken counts the request among those of its client, and takes a token of the rate. While it waits for one it has
// no place in its gate. The wait ends when the client goes away or the server drains.
func (l *listener) takeToken(w *delivery, r *http.Request) error {
	share, ok := l.clients.Try(w.From.Group)
	if ok {
		w.places.share = share
		return nil
	}
	began, gate := time.Now(), w.places.gate
	defer func() {
		w.cost.waited = time.Since(began)
	}()
	w.places.leaveGate()
	share, err := l.clients.Await(r.Context(), w.From.Group, func() (func(), bool) {
		return l.server.bounds.waiting.enter(w.From.Group, r)
	})
	switch {
	case err != nil && l.server.Draining():
		return errDraining()
	case err != nil:
		return exchange.CauseOf(r.Context(), err)
	}
	if err := gate.Enter(); err != nil {
		share.Leave()
		return err
	}
	w.places.gate, w.places.share = gate, share
	return nil
}

// cost records what a request has taken so far.
type cost struct {
	began        time.Time     // when the request came
	waited       time.Duration // for a token of the rate
	writing      time.Duration // the time of writes, in which the client may be slow
	askedNetwork bool
}

// own returns the time that the node itself has spent on the request.
func (c *cost) own() time.Duration { return time.Since(c.began) - c.waited - c.writing }

// cheapTime is the longest time in which an answer is cheap.
const cheapTime = time.Millisecond

// cheap reports whether the request cost next to nothing: it reads an object or a directory that is here, or asks who
// may read it, in less than cheapTime without the time in which the client took the answer. A request that needs a
// capability is never cheap, because a client must not guess capabilities for free.
func (d *delivery) cheap(rt route, r *http.Request, err error) bool {
	reads := slices.Contains(exchange.OfSites, r.Method) && rt.op == "" && !d.Root.IsZero()
	found := err == nil || status.Of(err) == status.NotFound // what a directory here does not have
	return reads && found && !d.cost.askedNetwork && d.cost.own() < cheapTime
}
