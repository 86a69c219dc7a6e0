package index

import (
	"context"
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/name"
	"allium/protocols/session"
	"allium/protocols/status"
)

const (
	recursions     = 32 // requests of all peers for which the network is asked at once
	peerRecursions = 4  // of one peer
)

// Source gives a [Server] the knowledge of its node. An error carries an outcome; not_found means that there is
// nothing. Both methods return when ctx ends.
type Source interface {
	// Object returns what is known of an object. With network it may ask other peers.
	Object(ctx context.Context, root b3.Root, limit int, network bool) (Answer, error)
	// Name returns what is known of a name. A record may be used until maxStale after its TTL, or
	// its life, has ended. With network it may ask other peers.
	Name(ctx context.Context, n name.Name, maxStale time.Duration, network bool) (Answer, error)
}

// Filter denies keys: peers get no answer about such a key. Its methods return denied for it, and do not wait.
type Filter interface {
	Object(root b3.Root) error
	Name(n name.Name) error
}

// ServerDeps holds the dependencies of a [Server]. Source and Filter are required.
type ServerDeps struct {
	env.Env

	Source Source
	Filter Filter
	// Recurse lets the server ask the network for peers.
	Recurse bool
}

// Server answers the index requests of peers. It is safe for concurrent use, starts nothing and
// holds nothing between requests.
type Server struct {
	Handle session.Handler // of the protocol
	deps   ServerDeps
	all    *limits.Gate
	each   *limits.KeyedGate[peer.ID]
}

// NewServer returns a Server.
func NewServer(d ServerDeps) (*Server, error) {
	if d.Source == nil || d.Filter == nil {
		return nil, errors.New("an index server needs a source and a filter")
	}
	s := &Server{
		deps: d,
		all: d.Limits.NewGate(limits.Spec{
			Name: "index.recursions", Path: "sessions → resolver (lookups for peers)", Policy: "busy",
		}, recursions, 0),
		each: limits.NewKeyedGate[peer.ID](d.Limits, limits.Spec{
			Name: "index.peer_recursions", Path: "one peer → resolver (lookups for it)", Policy: "busy", Each: "peer",
		}, peerRecursions),
	}
	var err error
	s.Handle, err = session.Counted(d.Metrics, "index_requests_total",
		"Requests of peers about keys, by operation (resolve, providers, other) and by the outcome of the answer.",
		[]string{opResolve, opProviders}, s.answer)
	return s, err
}

// Ask is the [session.Ask] of the protocol: a request reads an object or a name.
func (s *Server) Ask(r *session.Request) (capability.Request, error) {
	q, err := decodeQuestion(r)
	if err != nil {
		return capability.Request{}, err
	}
	ask := capability.Request{Op: capability.Get, Object: q.root, Method: q.op}
	if !q.name.IsZero() {
		ask.Name = q.name.String()
	}
	return ask, nil
}

func (s *Server) answer(ctx context.Context, from peer.ID, r *session.Request) ([]byte, error) {
	q, err := decodeQuestion(r)
	if err != nil {
		return nil, err
	}
	a, err := s.find(ctx, q, false)
	if status.Of(err) == status.NotFound && s.deps.Recurse {
		a, err = s.recurse(ctx, from, q)
	}
	switch status.Of(err) {
	case status.OK:
		return a.encode(q.op)
	case status.Denied:
		return nil, ErrNone
	}
	return nil, err
}

// ErrNone is the error for a key without a record here. Denied keys have it too: peers learn nothing of the denylist.
var ErrNone = status.Errorf(status.NotFound, "this node holds no record of the key")

// recurse asks the network, within the permits of the peer and of all peers.
func (s *Server) recurse(ctx context.Context, from peer.ID, q question) (Answer, error) {
	leave, err := s.each.EnterOf(from, s.all)
	if err != nil {
		return Answer{}, err
	}
	defer leave()
	return s.find(ctx, q, true)
}

// find asks the source, unless the key is denied.
func (s *Server) find(ctx context.Context, q question, network bool) (Answer, error) {
	if q.name.IsZero() {
		if err := s.deps.Filter.Object(q.root); err != nil {
			return Answer{}, err
		}
		return s.deps.Source.Object(ctx, q.root, q.limit, network)
	}
	if err := s.deps.Filter.Name(q.name); err != nil {
		return Answer{}, err
	}
	return s.deps.Source.Name(ctx, q.name, q.maxStale, network)
}
