package wire

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

var update = flag.Bool("update", false, "write ../oap/testdata/repair.txt anew")

const vectorsFile = "../../../protocols/oap/testdata/repair.txt"

const vectorsHead = `# The repair protocol (SPEC.md, section 10a): requests, answers and proofs, byte for byte.
#
#   request  a request, and what it asks; "refused" and the reason if it is not answered
#   body     the CBOR in it, in hexadecimal
#   answer   an answer to the request before it, in hexadecimal
#   about    what a put says of three objects (section 9), of which the second is the empty one, in hexadecimal
#   reply    what a receiver says of one of them, in hexadecimal
#
# The object has 66,561 bytes: byte number i is i mod 251. It has two groups and 66 chunks; the last
# chunk is one byte long. The peer id is that of the Ed25519 key whose public key is 32 bytes 01.
`

// TestVectors compares the messages with the file, which other implementations test against.
func TestVectors(t *testing.T) {
	m := &member{objects: map[b3.Root]*b3.Reader{}}
	root := m.addPattern(t, b3.GroupSize+b3.ChunkSize+1)
	id := plan.ID("\x00\x24\x08\x01\x12\x20" + strings.Repeat("\x01", 32))
	about := plan.Told{
		Root:    root,
		Asked:   []plan.Asked{{Origin: id, Target: meta.Target{Copies: 3, Seq: 1767366245000}}},
		Holders: []plan.ID{id},
	}
	var proofs proofsWire
	challenge := challengeWire{}
	for _, chunk := range []int64{0, 63, 65} {
		p, err := m.objects[root].ChunkProof(chunk)
		if err != nil {
			t.Fatal(err)
		}
		proofs.Proofs = append(proofs.Proofs, proof{Answer: uint8(plan.Proved), Proof: p})
		challenge.Slices = append(challenge.Slices, slice{Root: root[:], Chunk: uint64(chunk)})
	}
	other := b3.Sum(nil)
	challenge.Slices = append(challenge.Slices, slice{Root: other[:]})
	proofs.Proofs = append(proofs.Proofs, proof{Answer: uint8(plan.Absent)})

	var b strings.Builder
	b.WriteString(vectorsHead)
	for _, v := range []struct {
		op           string
		body, answer any
	}{
		{opChallenge, challenge, proofs},
		{
			opTell, tellWire{[]toldWire{toWire(about), toWire(plan.Told{Root: other})}},
			tellWire{[]toldWire{toWire(about)}},
		},
		{opLease, leaseWire{root[:]}, grantWire{true}},
		{opChallenge, challengeWire{}, nil},
		{opChallenge, challengeWire{[]slice{{Root: root[:], Chunk: 1 << 53}}}, nil},
		{opLease, leaseWire{root[:31]}, nil},
		{opTell, tellWire{[]toldWire{{Root: root[:], Targets: make([]targetWire, plan.MaxTargets+1)}}}, nil},
	} {
		p, err := encode(v.body)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := json.Marshal(sentRequest{Op: v.op, Body: bodyText.EncodeToString(p)})
		if err != nil {
			t.Fatal(err)
		}
		n, err := decoded(t, payload)
		if err != nil {
			fmt.Fprintf(&b, "\nrequest %s ⇒ refused %s\nbody %x\n", payload, status.Of(err), p)
			continue
		}
		fmt.Fprintf(&b, "\nrequest %s ⇒ objects %d\nbody %x\n", payload, n, p)
		if p, err = encode(v.answer); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "answer %x\n", p)
	}
	told := plan.Told{Root: other, Asked: about.Asked}
	p, _, err := aboutOf([]Copy{{about, 63}, {told, 0}, {about, 3}})
	if err != nil {
		t.Fatal(err)
	}
	if copies, err := DecodeAbout(p, []b3.Root{root, other, root}); err != nil || len(copies) != 3 {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "\nabout %x\n", p)
	for _, w := range []replyWire{
		{Same: true, Answer: uint8(plan.Proved), Proof: proofs.Proofs[2].Proof}, {Answer: uint8(plan.Absent)},
	} {
		if p, err = wide.Marshal(w); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "reply %x\n", p)
	}
	testkit.Golden(t, vectorsFile, b.String(), *update)
}

// decoded returns how many objects a request has, or why it is refused.
func decoded(t *testing.T, payload []byte) (int, error) {
	t.Helper()
	r := &session.Request{Payload: payload}
	if err := oap.DecodeJSON(payload, &r.Envelope, true); err != nil {
		t.Fatal(err)
	}
	switch r.Op {
	case opChallenge:
		roots, _, err := decodeChallenge(r)
		return len(roots), err
	case opTell:
		list, err := decodeTell(r)
		return len(list), err
	}
	_, err := decodeLease(r)
	return 1, err
}
