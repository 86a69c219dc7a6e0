package wire

import (
	"bytes"
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/test"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// newSaid returns what is said of some objects of a member, which holds them.
func newSaid(t *testing.T, c *Client, m *member) (said *Said, copies []Copy) {
	t.Helper()
	c.deps.Chunks = func(root b3.Root) (int64, error) { return b3.Chunks(m.objects[root].Size()), nil }
	var list []plan.Told
	full := fullList(t, 1)[0]
	for i := range 40 {
		told := plan.Told{
			Root:  m.addPattern(t, int64(i)*1000),
			Asked: []plan.Asked{{Origin: full.Asked[0].Origin, Target: meta.Target{Copies: i % 3, Seq: 7}}},
		}
		if i%2 == 1 {
			told.Holders = full.Holders[:1]
		}
		list = append(list, told)
	}
	said, err := c.Say(list)
	if err != nil || said.Len() != len(list) {
		t.Fatalf("%d objects, %v", said.Len(), err)
	}
	roots := make([]b3.Root, len(list))
	for i := range list {
		roots[i] = list[i].Root
	}
	if copies, err = DecodeAbout(said.About, roots); err != nil {
		t.Fatal(err)
	}
	for i, got := range copies {
		if got.Root != list[i].Root || !slices.Equal(got.Asked, list[i].Asked) ||
			!slices.Equal(got.Holders, list[i].Holders) || got.Chunk != said.copies[i].Chunk {
			t.Errorf("object %d: %+v", i, got)
		}
	}
	return said, copies
}

// TestSaid: the receiver learns what the sender tells of each object, and proves the chunk that it drew. A wrong proof
// is none, and so is a reply that is malformed or empty.
func TestSaid(t *testing.T) {
	t.Parallel()
	c, w, m := newPair(t)
	said, copies := newSaid(t, c, m)
	read := func(i int, reply []byte, want plan.Answer, same bool) {
		t.Helper()
		if a, s := said.Read(i, reply); a != (plan.Response{Answer: want}) || s != same {
			t.Errorf("object %d: %+v, %t", i, a, s)
		}
	}
	replies := w.server.Copies(t.Context(), w.from, copies)
	if len(replies) != len(copies) || len(m.told) != len(copies) {
		t.Fatalf("%d replies, told of %d", len(replies), len(m.told))
	}
	for i, reply := range replies {
		if read(i, reply, plan.Proved, true); len(reply) > object.MaxReply {
			t.Errorf("a reply of %d bytes", len(reply))
		}
	}
	read(1, nil, plan.Busy, false)
	read(1, replies[1][1:], plan.Busy, false)
	read(1, append(bytes.Clone(replies[1]), 0), plan.Busy, false)
	m.lies = func(p []byte) []byte { return append(p, 0) }
	read(5, w.server.Copies(t.Context(), w.from, copies)[5], plan.Absent, true)
	m.lies = nil
	m.answers[copies[5].Root] = plan.Leaving
	read(5, w.server.Copies(t.Context(), w.from, copies)[5], plan.Leaving, true)
	m.known = func(list []plan.Told) []plan.Told { // it knows of another target
		list = slices.Clone(list)
		list[6].Asked = append(slices.Clone(list[6].Asked), plan.Asked{Origin: "x"})
		list[7].Asked = nil
		list[8].Asked = []plan.Asked{{Origin: list[8].Asked[0].Origin, Target: meta.Target{Seq: 8}}}
		return list
	}
	replies = w.server.Copies(t.Context(), w.from, copies)
	for i, same := range map[int]bool{5: true, 6: false, 7: false, 8: false, 9: true} {
		want := plan.Proved
		if i == 5 {
			want = plan.Leaving
		}
		read(i, replies[i], want, same)
	}
	m.known = func([]plan.Told) []plan.Told { return nil }
	if replies = w.server.Copies(t.Context(), w.from, copies); replies != nil {
		t.Error("it replies although it learned nothing")
	}
	if w.server.Copies(t.Context(), w.from, nil) != nil {
		t.Error("replies for nothing")
	}
}

// TestSayFits: what does not fit into one put is left out, and said with the next one.
func TestSayFits(t *testing.T) {
	t.Parallel()
	c, _, _ := newPair(t)
	c.deps.Chunks = func(b3.Root) (int64, error) { return 64, nil }
	for name, list := range map[string][]plan.Told{
		"full":  fullList(t, 20),                                               // all are told the same
		"other": slices.Concat(fullList(t, 1), fullList(t, 1), fullList(t, 1)), // each is told something of its own
		"many":  make([]plan.Told, object.MaxTold+5),
	} {
		said, err := c.Say(list)
		want := map[string]int{"full": 20, "other": 1, "many": object.MaxTold}[name]
		if err != nil || said.Len() < want || said.Len() > want+1 || len(said.About) > object.MaxAbout {
			t.Errorf("%s: %d of %d objects in %d bytes, %v", name, said.Len(), len(list), len(said.About), err)
			continue
		}
		roots := make([]b3.Root, said.Len())
		for i := range roots {
			roots[i] = list[i].Root
		}
		if _, err := DecodeAbout(said.About, roots); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := DecodeAbout(said.About, roots[1:]); status.Of(err) != status.BadRequest {
			t.Errorf("%s: of fewer objects: %v", name, err)
		}
	}
	var many []plan.Told
	id, err := test.RandPeerID()
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxSets + 1 {
		many = append(many, plan.Told{Asked: []plan.Asked{{Origin: plan.ID(id), Target: meta.Target{Seq: uint64(i)}}}})
	}
	if said, err := c.Say(many); err != nil || said.Len() != maxSets {
		t.Errorf("%d of as many sets, %v", said.Len(), err)
	}
}

// FuzzAbout: what is said of objects is refused with bad_request, or within the bounds and of this one encoding.
func FuzzAbout(f *testing.F) {
	full := fullList(f, 2)
	for _, copies := range [][]Copy{
		{{Told: full[0], Chunk: 63}, {Told: full[1]}}, {{Chunk: 1}, {Told: full[0]}, {}}, {{Chunk: 64}}, nil,
	} {
		p, n, err := aboutOf(copies)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p, n)
	}
	f.Add([]byte("\xa2\x01\x80\x02\x81\x82\x00\x00"), 1)
	f.Add([]byte("\xa2\x01\x9b\xff\xff\xff\xff\xff\xff\xff\xff"), 1)
	f.Fuzz(func(t *testing.T, p []byte, n int) {
		if n < 0 || n > object.MaxTold || len(p) > object.MaxAbout {
			return
		}
		objs := make([]b3.Root, n)
		for i := range objs {
			objs[i] = b3.Root{byte(i), 1}
		}
		copies, err := DecodeAbout(p, objs)
		if err != nil {
			if status.Of(err) != status.BadRequest {
				t.Errorf("%x: %v", p, err)
			}
			return
		}
		if len(copies) != n {
			t.Errorf("%d objects, want %d", len(copies), n)
		}
		for i, c := range copies {
			if c.Root != objs[i] || len(c.Asked) > plan.MaxTargets || len(c.Holders) > plan.MaxSeen || c.Chunk > 63 {
				t.Errorf("object %d: %+v", i, c)
			}
		}
	})
}

// FuzzReply: whatever a member replies counts as proved only with a proof.
func FuzzReply(f *testing.F) {
	c, _, m := newPair(f)
	root := m.addPattern(f, 3000)
	said := &Said{client: c, copies: []Copy{{Told: plan.Told{Root: root}, Chunk: 2}}}
	p, err := m.objects[root].ChunkProof(2)
	if err != nil {
		f.Fatal(err)
	}
	for _, w := range []replyWire{{Same: true, Answer: 1, Proof: p}, {Answer: 1}, {Answer: 9}, {Answer: 3, Proof: p}} {
		reply, err := wide.Marshal(w)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(reply)
	}
	f.Fuzz(func(t *testing.T, reply []byte) {
		a, _ := said.Read(0, reply)
		if a.Answer > plan.Absent || a.Answer == plan.Proved && !bytes.Contains(reply, p) {
			t.Errorf("%x counts as %+v", reply, a)
		}
	})
}
