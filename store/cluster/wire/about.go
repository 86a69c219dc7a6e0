package wire

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/store/cluster/plan"
)

// maxSets is the number of different targets and holders that a put says of its objects.
const maxSets = 64

// wide is canonical for the objects of one put.
var wide = record.NewCodec(object.MaxTold)

// Copy describes an object that a member puts: the targets and holders that it tells, and the chunk to prove.
type Copy struct {
	plan.Told
	Chunk int64 // of 1,024 bytes
}

// setWire has the targets and holders of some objects.
type setWire struct {
	_       struct{} `cbor:",toarray"`
	Targets []targetWire
	Holders [][]byte
}

// copyWire has the number of the set of one object, and the chunk.
type copyWire struct {
	_     struct{} `cbor:",toarray"`
	Set   uint64
	Chunk uint64
}

// aboutWire says something of all objects of a put, in their order.
type aboutWire struct {
	Sets   []setWire  `cbor:"1,keyasint"`
	Copies []copyWire `cbor:"2,keyasint"`
}

// replyWire is the reply for one object of a put. Proof is empty unless Answer is Proved.
type replyWire struct {
	_      struct{} `cbor:",toarray"`
	Same   bool     // the receiver knows the targets that it was told, and no others
	Answer uint8
	Proof  []byte
}

// aboutOf returns what is said of the first objects, as many as fit into one put, and how many these are.
func aboutOf(copies []Copy) (p []byte, n int, err error) {
	var w aboutWire
	numbers := map[string]uint64{} // of sets, by their encoding
	size := 3 * overhead
	for _, c := range copies[:min(len(copies), object.MaxTold)] {
		t := toWire(c.Told)
		set := setWire{Targets: t.Targets, Holders: t.Holders}
		key, err := wide.Marshal(set)
		if err != nil {
			return nil, 0, status.Errorf(status.Internal, "encode what is told: %w", err)
		}
		number, known := numbers[string(key)]
		if size += 5; !known { // at most: two numbers below 256 in an array
			size += len(key)
			number = uint64(len(w.Sets))
		}
		if size > object.MaxAbout || !known && len(w.Sets) == maxSets {
			break
		}
		if !known {
			numbers[string(key)], w.Sets = number, append(w.Sets, set)
		}
		w.Copies = append(w.Copies, copyWire{Set: number, Chunk: uint64(c.Chunk)})
	}
	if p, err = wide.Marshal(w); err != nil {
		return nil, 0, status.Errorf(status.Internal, "encode what is told: %w", err)
	}
	return p, len(w.Copies), nil
}

// DecodeAbout decodes the description of the objects of a put that a member sends. The error is bad_request.
func DecodeAbout(p []byte, objs []b3.Root) ([]Copy, error) {
	var w aboutWire
	if err := wide.Unmarshal(p, &w); err != nil {
		return nil, status.Errorf(status.BadRequest, "the description of the objects is malformed: %w", err)
	}
	if len(w.Copies) != len(objs) || len(w.Sets) > maxSets {
		return nil, status.Errorf(status.BadRequest, "%d objects and %d sets are said of %d objects, at most %d sets",
			len(w.Copies), len(w.Sets), len(objs), maxSets)
	}
	sets := make([]plan.Told, len(w.Sets))
	for i, s := range w.Sets {
		list, err := told([]toldWire{{Root: make(b3Root, b3.Size), Targets: s.Targets, Holders: s.Holders}})
		if err != nil {
			return nil, err
		}
		sets[i] = list[0]
	}
	copies := make([]Copy, len(objs))
	for i, c := range w.Copies {
		if c.Set >= uint64(len(sets)) || c.Chunk >= uint64(b3.GroupSize/b3.ChunkSize) {
			return nil, status.Errorf(status.BadRequest, "no set %d, or no chunk %d", c.Set, c.Chunk)
		}
		copies[i] = Copy{sets[c.Set], int64(c.Chunk)}
		copies[i].Root = objs[i]
	}
	return copies, nil
}

// Say returns what this node says to a member of objects of at most one group that it puts there, of the first ones, as
// many as fit into one put, and reads the replies.
func (c *Client) Say(list []plan.Told) (*Said, error) {
	s := &Said{client: c}
	for _, t := range list[:min(len(list), object.MaxTold)] {
		n, err := c.deps.Chunks(t.Root)
		if err != nil {
			return nil, err
		}
		s.copies = append(s.copies, Copy{t, c.deps.Draw(n)})
	}
	p, n, err := aboutOf(s.copies)
	s.About, s.copies = p, s.copies[:n]
	return s, err
}

// Said describes the objects of one put.
type Said struct {
	About  []byte
	client *Client
	copies []Copy
}

// Len returns of how many objects.
func (s *Said) Len() int { return len(s.copies) }

// Read returns how the member answers for copy i, and whether it knows the targets that it was told and no others. A
// reply that is malformed says nothing.
func (s *Said) Read(i int, reply []byte) (a plan.Response, same bool) {
	var w replyWire
	if len(reply) == 0 || wide.Unmarshal(reply, &w) != nil || w.Answer > uint8(plan.Absent) {
		return a, false
	}
	a.Answer = plan.Answer(w.Answer)
	p := proof{Answer: w.Answer, Proof: w.Proof}
	if a.Answer == plan.Proved && !s.client.proves(s.copies[i].Root, p, s.copies[i].Chunk) {
		a.Answer = plan.Absent
	}
	return a, w.Same
}

// Copies takes over what a member says of copies that it has just put here, and returns the reply for each. Without
// replies the member tells of them and challenges them as it does others.
func (s *Server) Copies(ctx context.Context, from peer.ID, copies []Copy) [][]byte {
	if len(copies) == 0 {
		return nil
	}
	list := make([]plan.Told, len(copies))
	for i, c := range copies {
		list[i] = c.Told
	}
	known, err := s.deps.Holder.Told(ctx, from, list)
	if err != nil || len(known) != len(list) {
		return nil // it learns why when it tells of them
	}
	replies := make([][]byte, len(copies))
	for i, c := range copies {
		p, err := s.prove(ctx, c.Root, c.Chunk)
		if err != nil {
			return replies
		}
		w := replyWire{Same: sameTargets(known[i], c.Told), Answer: p.Answer, Proof: p.Proof}
		if replies[i], err = wide.Marshal(w); err != nil || len(replies[i]) > object.MaxReply {
			replies[i] = nil
		}
	}
	return replies
}

// sameTargets reports whether two have the same targets.
func sameTargets(a, b plan.Told) bool {
	if len(a.Asked) != len(b.Asked) {
		return false
	}
	for _, t := range a.Asked {
		if !b.Has(t) {
			return false
		}
	}
	return true
}
