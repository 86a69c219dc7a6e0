// Package updates carries new records of names by gossip, so that whoever holds, remembers or
// follows a name learns of an update at once and not when its TTL ends (SPEC §6).
//
// Invariants:
//
//   - A message is one signed record. It is verified before it is relayed or used.
//   - A node relays one message of a name in [Gap]. So the owner of a zone cannot flood the
//     network with updates of one name.
//   - Only records of names that this node knows already are kept. What gossip loses is found
//     when the TTL ends.
//
// One update: a node publishes a record and calls [Updates.Announce]. Each node that receives the
// message calls [Updates.Validate], relays it, and calls [Updates.Handle], which passes the record
// to [Deps.Learned].
package updates

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"allium/protocols/name"
	"allium/protocols/status"
)

// Topic is the gossip topic of name records.
const Topic = "/allium/1/names"

// Gap is the shortest time between two messages of one name.
const Gap = 10 * time.Second

// maxNames bounds the names whose last message is remembered, at about 150 bytes each. The least
// recently used one is forgotten, and may then be updated again before Gap has passed.
const maxNames = 16 << 10

// Deps is what [Updates] needs from the node.
type Deps struct {
	// Publish sends a message to the topic.
	Publish func(ctx context.Context, data []byte) error
	// Learned gets each record that another node has announced. It must not wait.
	Learned func(rec name.Signed)
	// Now is the clock that decides whether a record is valid.
	Now func() time.Time
}

// Updates announces and learns new records of names. Its methods are safe for concurrent use.
type Updates struct {
	deps Deps

	mu   sync.Mutex
	last *simplelru.LRU[name.Name, message]
}

// message is the last message of a name.
type message struct {
	at  time.Time
	seq uint64
}

// New returns an Updates. It starts nothing.
func New(d Deps) *Updates {
	last, err := simplelru.NewLRU[name.Name, message](maxNames, nil)
	if err != nil {
		panic(err) // only for a size below one
	}
	return &Updates{deps: d, last: last}
}

// Announce sends a record to everybody. The error is rate_limit within Gap of the last message of
// the name, and that of the topic.
func (u *Updates) Announce(ctx context.Context, rec name.Signed) error {
	return u.deps.Publish(ctx, rec.Envelope) // it validates too
}

// Validate decides whether a message is relayed and used. A message that is no valid record is an
// error that counts against its sender; one that comes too soon, or is too old, is ignored.
func (u *Updates) Validate(data []byte) error {
	now := u.deps.Now()
	rec, err := name.Open(data, now)
	if err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	old, known := u.last.Get(rec.Name)
	switch {
	case known && rec.Seq < old.seq:
		return status.Errorf(status.Stale, "a newer record of %s was announced", rec.Name)
	case known && now.Sub(old.at).Abs() < Gap:
		return status.Errorf(status.RateLimit, "%s was announced less than %s ago", rec.Name, Gap)
	}
	u.last.Add(rec.Name, message{now, rec.Seq})
	return nil
}

// Handle takes up a message that was validated.
func (u *Updates) Handle(data []byte) {
	if rec, err := name.Restore(data); err == nil { // its signature was verified
		u.deps.Learned(rec)
	}
}
