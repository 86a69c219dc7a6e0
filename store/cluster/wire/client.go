package wire

import (
	"context"
	"encoding/json"
	"math/rand/v2"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/store/cluster/plan"
)

// Caller is the part of [session.Service] that a [Client] uses.
type Caller interface {
	CallWith(ctx context.Context, p peer.ID, m session.Message) ([]byte, error)
}

// ClientDeps holds the dependencies of a [Client]. All are required.
type ClientDeps struct {
	Call Caller
	// Capability returns a binary capability for capability.Replicate that counts at one member, for
	// one object or, with the zero address, for any.
	Capability func(to peer.ID, root b3.Root) ([]byte, error)
	// Answered notes that the member answered.
	Answered func(to peer.ID)
	// Refused notes that the member refused the capability that it was shown: it knows none of its keys.
	Refused func(to peer.ID)
	// Chunks returns below which number a challenge of an object draws its chunk.
	Chunks func(root b3.Root) (int64, error)
	// Slice returns what proves a piece of an object, for the number that was drawn. The error says that the object has
	// no such piece.
	Slice func(root b3.Root, piece plan.Piece, drawn int64) (Slice, error)
	// Draw returns a number below n, which the members cannot foresee. Its n is at least 1.
	Draw func(n int64) int64
}

// Client asks members. It is safe for concurrent use. Its calls keep to the deadline of ctx.
type Client struct{ deps ClientDeps }

// NewClient returns a Client.
func NewClient(d ClientDeps) *Client { return &Client{d} }

// Draw is the ClientDeps.Draw of a node.
func Draw(n int64) int64 { return rand.Int64N(n) }

// Challenge has a member prove its copies of objects that this node holds, and returns an answer for
// each: Absent for a wrong proof, and busy for those that the member did not answer after it answered
// others. The error says that it answered nothing.
func (c *Client) Challenge(ctx context.Context, to peer.ID, roots []b3.Root) ([]plan.Response, error) {
	answers := make([]plan.Response, len(roots))
	for done := 0; done < len(roots); {
		part := roots[done:min(len(roots), done+plan.MaxBatch)]
		n, err := c.challenge(ctx, to, part, answers[done:])
		if err != nil && done == 0 {
			return nil, err
		}
		if err != nil {
			return answers, nil //nolint:nilerr // the rest is busy, which says nothing of the copies
		}
		done += n
	}
	return answers, nil
}

// challenge sends one challenge, and returns for how many objects it has set answers.
func (c *Client) challenge(ctx context.Context, to peer.ID, roots []b3.Root, answers []plan.Response) (int, error) {
	var w challengeWire
	for _, root := range roots {
		n, err := c.deps.Chunks(root)
		if err != nil {
			return 0, err
		}
		w.Slices = append(w.Slices, slice{Root: root[:], Chunk: uint64(c.deps.Draw(n))})
	}
	var reply proofsWire
	if err := c.ask(ctx, to, opChallenge, b3.Root{}, w, &reply); err != nil {
		return 0, err
	}
	if n := len(reply.Proofs); n < 1 || n > len(roots) {
		return 0, status.Errorf(status.Upstream, "the member answers for %d of %d objects", n, len(roots))
	}
	for i, p := range reply.Proofs {
		answers[i] = plan.Response{Answer: plan.Answer(p.Answer), Piece: plan.Piece(p.Piece)}
		switch {
		case answers[i].Answer > plan.Absent:
			answers[i].Answer = plan.Busy // no answer that this version knows
		case answers[i].Answer == plan.Proved && !c.proves(roots[i], p, int64(w.Slices[i].Chunk)):
			answers[i].Answer = plan.Absent
		}
	}
	return len(reply.Proofs), nil
}

// proves reports whether a proof is one of the chunk that was drawn.
func (c *Client) proves(root b3.Root, p proof, drawn int64) bool {
	s, err := c.deps.Slice(root, plan.Piece(p.Piece), drawn)
	return err == nil && b3.VerifyChunkProof(s.Root, s.Size, s.Chunk, p.Proof) == nil
}

// Tell tells a member what this node knows of objects, and returns what it knows of them, in the same
// order. The error says that the member may not have taken all of it.
func (c *Client) Tell(ctx context.Context, to peer.ID, list []plan.Told) ([]plan.Told, error) {
	var answer []plan.Told
	for len(list) > 0 {
		part, err := fitting(list, MaxBody)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 {
			return nil, status.Errorf(status.BadRequest, "what is told of %s does not fit into a request", list[0].Root)
		}
		var reply tellWire
		if err := c.ask(ctx, to, opTell, b3.Root{}, tellWire{part}, &reply); err != nil {
			return nil, err
		}
		if n := len(reply.Objects); n < 1 || n > len(part) {
			return nil, status.Errorf(status.Upstream, "the member answers for %d of %d objects", n, len(part))
		}
		known, err := told(reply.Objects)
		if err != nil {
			return nil, status.Errorf(status.Upstream, "the member's answer is out of bounds: %w", err)
		}
		for i, t := range known {
			if t.Root != list[i].Root {
				return nil, status.Errorf(status.Upstream, "the member answers with other objects than it was told of")
			}
		}
		answer, list = append(answer, known...), list[len(known):]
	}
	return answer, nil
}

// Lease asks a member for the lease of this node's copy.
func (c *Client) Lease(ctx context.Context, to peer.ID, root b3.Root) (granted bool, err error) {
	var reply grantWire
	err = c.ask(ctx, to, opLease, root, leaseWire{root[:]}, &reply)
	return reply.Granted, err
}

// ask sends a request with a capability for root, and decodes the answer.
func (c *Client) ask(ctx context.Context, to peer.ID, op string, root b3.Root, asked, reply any) error {
	p, err := encode(asked)
	if err != nil {
		return err
	}
	payload, err := json.Marshal(sentRequest{Op: op, Body: bodyText.EncodeToString(p)})
	if err != nil {
		return err
	}
	token, err := c.deps.Capability(to, root)
	if err != nil {
		return err
	}
	got, err := c.deps.Call.CallWith(ctx, to, session.Message{Proto: oap.ProtoRepair, Payload: payload, Cap: token})
	if status.Of(err) == status.Unauthenticated {
		c.deps.Refused(to)
	}
	if err != nil {
		return err
	}
	c.deps.Answered(to)
	return decodeAnswer(got, reply)
}

var _ Caller = (*session.Service)(nil)
