// Package updates carries new records of names by gossip. So the nodes that hold, remember or follow a name learn of an
// update at once and not when its TTL ends (SPEC §6).
//
// Invariants:
//
//   - A message is one signed record. It is verified before it is relayed or used.
//   - A node sends one message of a name in [Gap]. So the owner of a zone cannot flood the
//     network with updates of one name.
//   - The last word arrives. A record that comes too soon is held back, and the newest one is sent
//     when Gap has passed, by the node that publishes it and by each that was to relay it.
//   - The records held back are bounded: in all, and for each zone and each sending peer. Peers take turns, and this
//     node's records do not wait for those of others.
//   - Only records of names that this node knows already are kept. An update that gossip loses is found when the TTL
//     ends.
//
// One update: a node publishes a record and calls [Updates.Announce], which sends it at once if Gap has passed. If not,
// [Updates.Run] sends it then. Each node that receives the message calls [Updates.Validate], relays it, and calls
// [Updates.Handle], which passes the record to [Deps.Learned]. A second message in Gap is not relayed. Validate keeps
// its record, and Run sends that later in a new message, because pubsub does not relay a message that it has seen.
package updates

import (
	"bytes"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/name"
	"allium/protocols/status"
)

// Topic is the gossip topic of name records.
const Topic = "/allium/1/names"

// Gap is the shortest time between two messages of one name. A relay takes slack less for it, as the second
// message may travel faster than the first.
const (
	Gap   = 10 * time.Second
	slack = 500 * time.Millisecond
)

// maxNames bounds the names whose last message is remembered, at about 150 bytes each. The least
// recently used one is forgotten, and may then be updated again before Gap has passed.
const maxNames = 16 << 10

// Deps holds the dependencies of [Updates]. Metrics and Limits may be nil.
type Deps struct {
	env.Env

	Self peer.ID
	// Publish sends a message to the topic. It calls Validate with Self.
	Publish func(ctx context.Context, data []byte) error
	// HasPeers reports whether a connected peer follows the topic. While none does, records wait.
	HasPeers func() bool
	// Learned gets each record that another node has announced. It must not wait.
	Learned func(rec name.Signed)
}

// Updates announces and learns new records of names. Its methods are safe for concurrent use.
type Updates struct {
	deps  Deps
	wake  chan struct{} // there is a new record to send
	usage *limits.Usage
	sent  *prometheus.CounterVec // label result

	mu     sync.Mutex // lock: leaf
	last   *simplelru.LRU[name.Name, message]
	held   *held
	window window
}

// message is the last message of a name.
type message struct {
	at  time.Time
	seq uint64
	own bool // this node's
}

// New returns an Updates. It starts nothing.
func New(d Deps) *Updates {
	d.Env.SetDefaults()
	last, err := simplelru.NewLRU[name.Name, message](maxNames, nil)
	if err != nil {
		panic(err) // only for a size below one
	}
	u := &Updates{deps: d, wake: make(chan struct{}, 1), last: last, held: newHeld()}
	u.sent = env.CounterVec("name_updates_held_total",
		"Records of names that gossip had to send, own ones and those of others that came too soon, by what became "+
			"of them: sent, refused (there was no place), dropped (too late, or for a peer with fewer), failed.",
		"result")
	env.Values(u.sent, resultSent, resultRefused, resultDropped, resultFailed)
	env.MustRegister(d.Metrics, u.sent)
	u.usage = d.Limits.NewUsage(limits.Spec{
		Name: "names.held_back", Path: "announcements of names that come too soon → gossip",
		Policy: "drop newest with busy; a peer has 64 places of 512, a zone 64, this node 1,024; " +
			"others learn of it when the TTL ends",
	}, (maxOwn+maxOthers)*name.MaxEnvelope, func() int64 {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.held.bytes
	})
	return u
}

// The results of name_updates_held_total.
const (
	resultSent    = "sent"
	resultRefused = "refused"
	resultDropped = "dropped"
	resultFailed  = "failed"
)

// Announce sends a record to everybody: at once, or, if Gap has not passed since the last message of the name or
// this window has no place, by Run. The error is busy if too many records wait.
func (u *Updates) Announce(ctx context.Context, rec name.Signed) error {
	now := time.Now()
	u.mu.Lock()
	r := heldRecord{rec: rec, due: now}
	if last, ok := u.last.Peek(rec.Name); ok && now.Sub(last.at) < Gap {
		r.due = last.at.Add(Gap)
	}
	r.until = r.due.Add(rec.TTL)
	u.renew(now)
	atOnce := r.due.Equal(now) && u.window.own > 0 && u.held.seq(rec.Name) == 0
	ok := true
	if atOnce {
		u.window.own--
	} else {
		ok = u.held.put(r)
	}
	u.mu.Unlock()
	switch {
	case atOnce:
		u.send(ctx, r)
	case !ok:
		return u.full()
	default:
		u.grown()
	}
	return nil
}

// grown has Run look at a record that is held back since now.
func (u *Updates) grown() {
	u.usage.Grown()
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// full counts a record without a place and returns the error for it.
func (u *Updates) full() error {
	u.sent.WithLabelValues(resultRefused).Inc()
	return status.BusyError(status.Busy, u.usage.Refuse())
}

// Validate decides whether a message that a peer sent is relayed and used. A message that is no valid record is an
// error that counts against the peer. A record that comes too soon, or is too old, is ignored. The newest record that
// came too soon is held back.
func (u *Updates) Validate(via peer.ID, data []byte) error {
	rec, err := name.Open(data, u.deps.Now())
	if err != nil {
		return err
	}
	now := time.Now()
	gap := Gap
	if via != u.deps.Self {
		gap -= slack
	}
	u.mu.Lock()
	old, known := u.last.Get(rec.Name)
	seq := max(old.seq, u.held.seq(rec.Name))
	soon, ok := known && now.Sub(old.at) < gap, true
	switch {
	case known && rec.Seq < seq:
	case !soon:
		u.last.Add(rec.Name, message{now, rec.Seq, via == u.deps.Self})
		u.held.forget(rec.Name, rec.Seq)
	case rec.Seq > old.seq && via != u.deps.Self:
		due := old.at.Add(Gap + rand.N(slack)) // whose turn is first sends it to the others
		rec.Envelope = bytes.Clone(rec.Envelope)
		ok = u.held.put(heldRecord{rec: rec, via: via, due: due, until: due.Add(relayFor)})
	}
	u.mu.Unlock()
	switch {
	case !ok:
		return u.full()
	case known && rec.Seq < seq:
		return status.Errorf(status.Stale, "a newer record of %s was announced", rec.Name)
	case soon:
		u.grown()
		return status.Errorf(status.RateLimit, "%s was announced less than %s ago", rec.Name, Gap)
	}
	return nil
}

// Handle takes up a message that was validated.
func (u *Updates) Handle(data []byte) {
	if rec, err := name.Restore(data); err == nil { // its signature was verified
		u.deps.Learned(rec)
	}
}
