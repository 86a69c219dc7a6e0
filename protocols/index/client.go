package index

import (
	"context"
	"encoding/json"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/answer"
	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/oap"
	"allium/protocols/record"
	"allium/protocols/session"
	"allium/protocols/status"
)

// askTimeout is the longest time of a request; the caller's deadline may shorten it.
const askTimeout = 5 * time.Second

// Caller is the part of [session.Service] that a [Client] uses.
type Caller interface {
	Call(ctx context.Context, p peer.ID, proto uint16, payload []byte) ([]byte, error)
}

// Verifier verifies signed records. Its methods wait for a place among a bounded number of
// verifications, until ctx ends.
type Verifier interface {
	// OpenProvider verifies the record of a provider of root and its peer record.
	OpenProvider(ctx context.Context, root b3.Root, envelope, peerRecord []byte) (record.Provider, error)
	// OpenName verifies the record of a name, which must be in force.
	OpenName(ctx context.Context, envelope []byte) (name.Signed, error)
	// SawName returns stale if v is older than what this node has verified of the name before, and
	// equivocation if it has another value. Otherwise the node never goes back behind v.
	SawName(v name.Versions) error
}

// Client asks peers what they know. It is safe for concurrent use.
type Client struct {
	call   Caller
	verify Verifier
}

// NewClient returns a Client.
func NewClient(call Caller, verify Verifier) *Client { return &Client{call, verify} }

// Providers asks p for the providers of an object. It verifies their records and returns at most limit of them. Errors
// are those of p and of [session.Service.Call], not_found if p knows nobody, and upstream if it proves nothing of what
// it says.
func (c *Client) Providers(ctx context.Context, p peer.ID, root b3.Root, limit int) ([]record.Provider, error) {
	limit = max(1, min(limit, answer.MaxProviders))
	records, ctx, cancel, err := c.ask(ctx, p, asked{Op: opProviders, Key: root.String(), Limit: limit})
	defer cancel()
	if err != nil {
		return nil, err
	}
	var found []record.Provider
	for len(records) >= 2 && len(found) < limit {
		got, err := c.verify.OpenProvider(ctx, root, records[0], records[1])
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		records = records[2:]
		if err != nil {
			continue
		}
		got.Origin, got.Via = record.OriginServed, p
		found = append(found, got)
	}
	if len(found) == 0 {
		return nil, errUnproved
	}
	return found, nil
}

// errUnproved reports an answer without a record that proves it.
var errUnproved = status.Errorf(status.Upstream, "the peer's answer has no valid record of the key; remove the peer "+
	"from resolver.ask if it goes on")

// Name asks p for the record of a name. The result is never empty without an error. Errors are those
// of p and of [session.Service.Call], not_found, upstream if p proves nothing of what it says,
// stale and equivocation.
func (c *Client) Name(ctx context.Context, p peer.ID, n name.Name) (v name.Versions, err error) {
	records, ctx, cancel, err := c.ask(ctx, p, asked{Op: opResolve, Key: n.String()})
	defer cancel()
	if err != nil {
		return v, err
	}
	for _, envelope := range records[:min(len(records), 2*name.MaxSteps)] {
		rec, err := c.verify.OpenName(ctx, envelope)
		if ctx.Err() != nil {
			return name.Versions{}, context.Cause(ctx)
		}
		if err == nil && rec.Name == n {
			v, _ = v.Add(rec)
		}
	}
	if v.Seq() == 0 {
		return v, errUnproved
	}
	if err := c.verify.SawName(v); err != nil {
		return name.Versions{}, err
	}
	return v, nil
}

// asked is a request that this node sends. The session adds deadline_ms.
type asked struct {
	Op    string `json:"op"`
	Key   string `json:"key"`
	Limit int    `json:"limit,omitempty"`
}

// ask sends a request and returns the records of the answer. ctx bounds what follows.
func (c *Client) ask(
	ctx context.Context, p peer.ID, q asked,
) (records [][]byte, _ context.Context, cancel context.CancelFunc, err error) {
	ctx, cancel = context.WithTimeout(ctx, askTimeout)
	payload, err := json.Marshal(q)
	if err != nil {
		return nil, ctx, cancel, err
	}
	reply, err := c.call.Call(ctx, p, oap.ProtoIndex, payload)
	if err != nil {
		return nil, ctx, cancel, err
	}
	records, err = decodeRecords(q.Op, reply)
	return records, ctx, cancel, err
}

var _ Caller = (*session.Service)(nil)
