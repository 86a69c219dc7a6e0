package wire

import (
	"encoding/base64"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/record"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// The operations.
const (
	opChallenge = "challenge"
	opTell      = "tell"
	opLease     = "lease"
)

// The bounds of messages.
const (
	MaxBody   = 44 << 10 // bytes of the CBOR of a request: its base64url fits into oap.MaxJSON
	MaxAnswer = 96 << 10 // bytes of an answer: it fits into a frame of the smallest max_frame

	maxPeerID = 64      // bytes
	maxCount  = 1 << 16 // copies or shards; a node says what it takes
)

// Slice identifies the chunk of an object that proves a piece.
type Slice struct {
	Root  b3.Root
	Size  int64 // bytes of the object
	Chunk int64
}

var canonical = record.NewCodec(plan.MaxBatch)

// bodyText is the encoding of a body in the JSON of a request.
var bodyText = base64.RawURLEncoding.Strict()

// request is a request on the wire. Body is the CBOR of one of the wire types below.
type request struct {
	session.Envelope
	Body string `json:"body"`
}

// sentRequest is a request that this node sends. The session adds deadline_ms.
type sentRequest struct {
	Op   string `json:"op"`
	Body string `json:"body"`
}

// slice is one chunk of an object, which a challenge asks for.
type slice struct {
	_     struct{} `cbor:",toarray"`
	Root  b3Root
	Chunk uint64
}

// b3Root is an address on the wire: a byte string.
type b3Root []byte

func (r b3Root) root() (root b3.Root, err error) {
	if len(r) != len(root) {
		return root, status.Errorf(status.BadRequest, "an address has %d bytes, and not %d", len(root), len(r))
	}
	return b3.Root(r), nil
}

type challengeWire struct {
	Slices []slice `cbor:"1,keyasint"`
}

// proof is the answer for one object of a challenge. Proof is empty unless Answer is Proved.
type proof struct {
	_      struct{} `cbor:",toarray"`
	Answer uint8
	Piece  uint8
	Proof  []byte
}

type proofsWire struct {
	Proofs []proof `cbor:"1,keyasint"`
}

type targetWire struct {
	_      struct{} `cbor:",toarray"`
	Origin []byte
	Copies uint64
	Data   uint64
	Parity uint64
	Seq    uint64
}

type toldWire struct {
	_       struct{} `cbor:",toarray"`
	Root    b3Root
	Targets []targetWire
	Holders [][]byte
}

type tellWire struct {
	Objects []toldWire `cbor:"1,keyasint"`
}

type leaseWire struct {
	Root b3Root `cbor:"1,keyasint"`
}

type grantWire struct {
	Granted bool `cbor:"1,keyasint"`
}

// body decodes the body of a request into v. The error is bad_request.
func body(r *session.Request, v any) error {
	var m request
	if err := r.Decode(&m); err != nil {
		return err
	}
	p, err := bodyText.DecodeString(m.Body)
	if err != nil {
		return status.Errorf(status.BadRequest, "the body is not base64url: %w", err)
	}
	if len(p) > MaxBody {
		return status.Errorf(status.BadRequest, "the body has %d bytes, at most %d", len(p), MaxBody)
	}
	if err := canonical.Unmarshal(p, v); err != nil {
		return status.Errorf(status.BadRequest, "the body is malformed: %w", err)
	}
	return nil
}

// objects returns bad_request unless n is a number of objects that a request may have.
func objects(n int) error {
	if n < 1 || n > plan.MaxBatch {
		return status.Errorf(status.BadRequest, "the request has %d objects: 1 to %d are allowed", n, plan.MaxBatch)
	}
	return nil
}

// decodeChallenge returns the objects of a challenge and the chunks it asks for, in one order.
func decodeChallenge(r *session.Request) (roots []b3.Root, chunks []int64, err error) {
	var w challengeWire
	if err := body(r, &w); err != nil {
		return nil, nil, err
	}
	if err := objects(len(w.Slices)); err != nil {
		return nil, nil, err
	}
	for _, s := range w.Slices {
		root, err := s.Root.root()
		if err != nil {
			return nil, nil, err
		}
		if s.Chunk >= uint64(b3.Chunks(b3.MaxSize)) {
			return nil, nil, status.Errorf(status.BadRequest, "no object has a chunk %d", s.Chunk)
		}
		roots, chunks = append(roots, root), append(chunks, int64(s.Chunk))
	}
	return roots, chunks, nil
}

// decodeLease returns the object of a lease.
func decodeLease(r *session.Request) (b3.Root, error) {
	var w leaseWire
	if err := body(r, &w); err != nil {
		return b3.Root{}, err
	}
	return w.Root.root()
}

// decodeTell returns what a member tells.
func decodeTell(r *session.Request) ([]plan.Told, error) {
	var w tellWire
	if err := body(r, &w); err != nil {
		return nil, err
	}
	if err := objects(len(w.Objects)); err != nil {
		return nil, err
	}
	return told(w.Objects)
}

// told decodes what is told of objects. The error is bad_request.
func told(objs []toldWire) (list []plan.Told, err error) {
	for _, o := range objs {
		t := plan.Told{}
		if t.Root, err = o.Root.root(); err != nil {
			return nil, err
		}
		if len(o.Targets) > plan.MaxTargets || len(o.Holders) > plan.MaxSeen {
			return nil, status.Errorf(status.BadRequest, "%d targets and %d holders of %s, at most %d and %d",
				len(o.Targets), len(o.Holders), t.Root, plan.MaxTargets, plan.MaxSeen)
		}
		for _, a := range o.Targets {
			asked := plan.Asked{
				Target: meta.Target{Copies: int(a.Copies), Data: int(a.Data), Parity: int(a.Parity), Seq: a.Seq},
			}
			if max(a.Copies, a.Data, a.Parity) > maxCount {
				return nil, status.Errorf(status.BadRequest, "a target of %s is out of its bounds", t.Root)
			}
			if asked.Origin, err = memberID(a.Origin); err != nil {
				return nil, err
			}
			t.Asked = append(t.Asked, asked)
		}
		for _, h := range o.Holders {
			id, err := memberID(h)
			if err != nil {
				return nil, err
			}
			t.Holders = append(t.Holders, id)
		}
		list = append(list, t)
	}
	return list, nil
}

func memberID(p []byte) (plan.ID, error) {
	if len(p) > maxPeerID {
		return "", status.Errorf(status.BadRequest, "a peer id has %d bytes, at most %d", len(p), maxPeerID)
	}
	id, err := peer.IDFromBytes(p)
	if err != nil {
		return "", status.Errorf(status.BadRequest, "malformed peer id: %w", err)
	}
	return plan.ID(id), nil
}

// toWire returns t as it is on the wire.
func toWire(t plan.Told) toldWire {
	w := toldWire{Root: t.Root[:]}
	for _, a := range t.Asked {
		w.Targets = append(w.Targets, targetWire{
			Origin: []byte(a.Origin), Copies: uint64(a.Target.Copies), Data: uint64(a.Target.Data),
			Parity: uint64(a.Target.Parity), Seq: a.Target.Seq,
		})
	}
	for _, h := range t.Holders {
		w.Holders = append(w.Holders, []byte(h))
	}
	return w
}

// overhead is the most bytes that a list of objects has beside its elements.
const overhead = 8

// fitting returns what is told of the first objects, as many as fit into limit bytes and at most
// plan.MaxBatch.
func fitting(list []plan.Told, limit int) ([]toldWire, error) {
	var ws []toldWire
	size := overhead
	for _, t := range list[:min(len(list), plan.MaxBatch)] {
		w := toWire(t)
		p, err := canonical.Marshal(w)
		if err != nil {
			return nil, status.Errorf(status.Internal, "encode what is told: %w", err)
		}
		if size += len(p); size > limit {
			break
		}
		ws = append(ws, w)
	}
	return ws, nil
}

// encode returns the CBOR of a message.
func encode(v any) ([]byte, error) {
	p, err := canonical.Marshal(v)
	if err != nil {
		return nil, status.Errorf(status.Internal, "encode the message: %w", err)
	}
	return p, nil
}

// decodeAnswer decodes an answer of a peer into v. The error is upstream.
func decodeAnswer(p []byte, v any) error {
	if len(p) > MaxAnswer {
		return status.Errorf(status.Upstream, "the member's answer has %d bytes, at most %d", len(p), MaxAnswer)
	}
	if err := canonical.Unmarshal(p, v); err != nil {
		return status.Errorf(status.Upstream, "the member's answer is malformed: %w", err)
	}
	return nil
}
