package wire

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/store/cluster/plan"
)

const (
	challenges     = 4 // challenges of all members that are answered at once
	peerChallenges = 1 // of one member
)

// Holder answers for the copies of the node of a [Server]. Its methods return when ctx ends.
type Holder interface {
	// Answer returns how the node answers for its copy; proved only if it may be proved.
	Answer(root b3.Root) plan.Answer
	// Claimed notes that a member challenged this node.
	Claimed(from peer.ID, roots []b3.Root)
	// Told takes over what a member tells, and returns what this node knows, in the same order.
	Told(ctx context.Context, from peer.ID, told []plan.Told) ([]plan.Told, error)
	// Grant decides whether a member may drop its copy.
	GrantLease(ctx context.Context, from peer.ID, root b3.Root) (bool, error)
}

// ServerDeps holds the dependencies of a [Server]. Holder, Member and Proof are required.
type ServerDeps struct {
	env.Env

	Holder Holder
	Member func(p peer.ID) error // nil for a peer that is a present member
	// Proof returns which piece of an object this node holds, and the proof of the chunk that a
	// number says. See [b3.Reader.ChunkProof].
	Proof func(ctx context.Context, root b3.Root, chunk int64) (piece plan.Piece, proof []byte, err error)
}

// Server answers the requests of members. It is safe for concurrent use, starts nothing and holds
// nothing between requests.
type Server struct {
	Handle session.Handler // of the protocol
	deps   ServerDeps
	all    *limits.Gate
	each   *limits.KeyedGate[peer.ID]
}

// NewServer returns a Server.
func NewServer(d ServerDeps) (*Server, error) {
	if d.Holder == nil || d.Member == nil || d.Proof == nil {
		return nil, errors.New("a repair server needs a holder, members and proofs")
	}
	s := &Server{
		deps: d,
		all: d.Limits.NewGate(limits.Spec{
			Name: "repair.challenges", Path: "sessions → store (proofs of copies)", Policy: "busy", Each: "member",
		}, challenges, 0),
		each: limits.NewKeyedGate[peer.ID](d.Limits, limits.Spec{
			Name: "repair.peer_challenges", Path: "one member → store (proofs of copies)", Policy: "busy",
		}, peerChallenges),
	}
	var err error
	s.Handle, err = session.Counted(d.Metrics, "repair_requests_total",
		"Requests of members about copies, by operation (challenge, tell, lease, other) and by the outcome of the "+
			"answer.",
		[]string{opChallenge, opTell, opLease}, s.answer)
	return s, err
}

// Ask is the [session.Ask] of the protocol: a request is between members, and a lease of one object.
func Ask(r *session.Request) (ask capability.Request, err error) {
	ask = capability.Request{Op: capability.Replicate, Method: r.Op}
	if r.Op == opLease {
		ask.Object, err = decodeLease(r)
	}
	return ask, err
}

func (s *Server) answer(ctx context.Context, from peer.ID, r *session.Request) ([]byte, error) {
	if r.Grant == nil { // what the session verified is a capability for what Ask returned
		return nil, status.Errorf(status.Unauthenticated, "protocol 4 needs a capability of the cluster's ring")
	}
	if err := s.deps.Member(from); err != nil {
		return nil, err
	}
	switch r.Op {
	case opChallenge:
		return s.challenge(ctx, from, r)
	case opTell:
		return s.tell(ctx, from, r)
	case opLease:
		root, err := decodeLease(r)
		if err != nil {
			return nil, err
		}
		granted, err := s.deps.Holder.GrantLease(ctx, from, root)
		if err != nil {
			return nil, err
		}
		return encode(grantWire{granted})
	}
	return nil, status.Errorf(status.Unsupported, "this node has no operation %.32q of repair", r.Op)
}

// challenge answers for the first objects of a challenge, as many as fit, within the permits of the
// member and of all.
func (s *Server) challenge(ctx context.Context, from peer.ID, r *session.Request) ([]byte, error) {
	leave, err := s.each.EnterOf(from, s.all)
	if err != nil {
		return nil, err
	}
	defer leave()
	roots, chunks, err := decodeChallenge(r)
	if err != nil {
		return nil, err
	}
	s.deps.Holder.Claimed(from, roots)
	var w proofsWire
	size := overhead
	for i, root := range roots {
		p, err := s.prove(ctx, root, chunks[i])
		if err != nil {
			return nil, err
		}
		if size += len(p.Proof) + overhead; size > MaxAnswer {
			break
		}
		w.Proofs = append(w.Proofs, p)
	}
	return encode(w)
}

// prove returns the answer for one object. The error says that ctx has ended.
func (s *Server) prove(ctx context.Context, root b3.Root, chunk int64) (proof, error) {
	a := s.deps.Holder.Answer(root)
	if a != plan.Proved {
		return proof{Answer: uint8(a)}, ctx.Err()
	}
	piece, chunkProof, err := s.deps.Proof(ctx, root, chunk)
	switch status.Of(err) {
	case status.OK:
		return proof{Answer: uint8(plan.Proved), Piece: uint8(piece), Proof: chunkProof}, nil
	case status.NotFound, status.Corrupt, status.BadRange, status.Denied:
		return proof{Answer: uint8(plan.Absent)}, nil
	}
	return proof{Answer: uint8(plan.Busy)}, ctx.Err()
}

// tell takes over what a member tells of the first objects of a request, as many as the answer has
// room for.
func (s *Server) tell(ctx context.Context, from peer.ID, r *session.Request) ([]byte, error) {
	list, err := decodeTell(r)
	if err != nil {
		return nil, err
	}
	known, err := s.deps.Holder.Told(ctx, from, list)
	if err != nil {
		return nil, err
	}
	if len(known) != len(list) {
		return nil, status.Errorf(status.Internal, "%d answers for %d objects", len(known), len(list))
	}
	ws, err := fitting(known, MaxAnswer)
	if err != nil {
		return nil, err
	}
	return encode(tellWire{ws})
}
