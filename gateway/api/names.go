package api

import (
	"context"
	"iter"
	"strings"
	"time"

	"allium/protocols/address"
	"allium/protocols/capability"
	"allium/protocols/status"
)

// Publisher publishes names in the node's own zones.
type Publisher interface {
	// ExpandName returns the name, with the key of its zone, that LABEL.ZONE stands for,
	// where ZONE is a key or a short name. A LABEL alone is in the only own zone.
	ExpandName(ctx context.Context, text string) (string, error)
	// PublishName signs a record of a name in an own zone, writes it, and sends it to the
	// peers. That no peer took it is no error: the node sends it again.
	PublishName(ctx context.Context, r PublishRequest) (OwnName, error)
	// WithdrawName publishes that a name has no value any more.
	WithdrawName(ctx context.Context, r WithdrawRequest) (OwnName, error)
	// OwnNames yields the names that this node publishes, in the order of their zones.
	OwnNames(ctx context.Context) iter.Seq2[OwnName, error]
}

// PublishRequest is the body of /api/v1/name/publish.
type PublishRequest struct {
	Name   string `json:"name"`              // LABEL.ZONE, ZONE a key or a short name; or LABEL in the only own zone
	Value  string `json:"value"`             // b3:<hex>[/path], another name, or text; at most 1,024 bytes
	TTLMS  int64  `json:"ttl_ms,omitempty"`  // milliseconds that caches may keep it, 5 s to 1 d; 0: 1 min
	LifeMS int64  `json:"life_ms,omitempty"` // milliseconds, 10 min to 30 d, until it expires; 0: 7 d
}

// WithdrawRequest is the body of /api/v1/name/withdraw.
type WithdrawRequest struct {
	Name string `json:"name"` // as in PublishRequest
}

// ExpandedName is a name with the key of its zone.
type ExpandedName struct {
	Name string `json:"name"`
}

// OwnName is a name that this node publishes.
type OwnName struct {
	Name     string         `json:"name"`              // with the key of its zone
	Short    string         `json:"short,omitempty"`   // with the petname of its zone; missing: it has none
	Value    string         `json:"value"`             // an address, a name or text; empty: it was withdrawn
	Seq      uint64         `json:"seq"`               // of several records the one with the highest is in force
	NotAfter time.Time      `json:"not_after"`         // when the record expires, if it is not signed again
	TTLMS    int64          `json:"ttl_ms"`            // milliseconds for which caches may keep it
	Peers    int            `json:"peers"`             // that took the record when it was sent last
	Sent     time.Time      `json:"sent,omitzero"`     // when that was; missing: not since the node started
	Due      time.Time      `json:"due,omitzero"`      // when it is sent or signed again; missing: not at all
	Problem  string         `json:"problem,omitempty"` // why it is sent no more: superseded, equivocation or refused
	Error    *status.Report `json:"error,omitempty"`   // of the problem, or why no peer took it
	Missing  bool           `json:"missing,omitempty"` // the node lacks the object; told when it is published
}

var nameVerbs = []*Verb{verbExpandName.Verb, verbPublishName.Verb, verbWithdrawName.Verb, verbOwnNames.Verb}

type expandRequest struct {
	Name string `query:"name,required"`
}

var (
	verbExpandName = value(Spec{
		ID: "ExpandName", Path: "name/expand", Doc: "Returns a name with the key of its zone.", Answer: "the name",
	}, func(n Node, ctx context.Context, r expandRequest) (ExpandedName, error) {
		full, err := n.ExpandName(ctx, r.Name)
		return ExpandedName{Name: full}, err
	})
	verbPublishName = value(Spec{
		ID: "PublishName", Path: "name/publish", JSON: true, Op: capability.Publish,
		Doc:    "Signs a record of a name in an own zone, writes it, and sends it to the peers.",
		Answer: "the name, and how many peers took the record; the node sends a record again that none took",
	}, Node.PublishName)
	verbWithdrawName = value(Spec{
		ID: "WithdrawName", Path: "name/withdraw", JSON: true, Op: capability.Publish,
		Doc: "Publishes that a name has no value any more.", Answer: "the name, and how many peers took the record",
	}, Node.WithdrawName)
	verbOwnNames = items(Spec{
		ID: "OwnNames", Path: "name/ls", Doc: "Lists the names that the node publishes.",
		Answer: "the names, in the order of their zones and labels",
	}, plainItems(Node.OwnNames))
)

// Subject returns the name and the address that it shall stand for, and writes the address in its one form.
func (r *PublishRequest) Subject() Subject {
	if key, ok := address.Digits(r.Value); ok {
		r.Value = key
	}
	s := Subject{Name: &r.Name}
	if strings.HasPrefix(r.Value, "b3:") {
		s.Key = r.Value
	}
	return s
}

// Subject returns the name.
func (r *WithdrawRequest) Subject() Subject { return Subject{Name: &r.Name} }

// ExpandName implements Publisher.
func (r remotePublisher) ExpandName(ctx context.Context, text string) (string, error) {
	v, err := verbExpandName.send(ctx, r.caller, expandRequest{text})
	return v.Name, err
}

// PublishName implements Publisher.
func (r remotePublisher) PublishName(ctx context.Context, p PublishRequest) (OwnName, error) {
	return verbPublishName.send(ctx, r.caller, p)
}

// WithdrawName implements Publisher.
func (r remotePublisher) WithdrawName(ctx context.Context, w WithdrawRequest) (OwnName, error) {
	return verbWithdrawName.send(ctx, r.caller, w)
}

// OwnNames implements Publisher.
func (r remotePublisher) OwnNames(ctx context.Context) iter.Seq2[OwnName, error] {
	return verbOwnNames.seq(ctx, r.caller, none{})
}
