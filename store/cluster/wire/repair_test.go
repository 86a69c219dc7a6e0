package wire

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/test"
	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// member is a node that holds objects. Its fields are the answers of its Holder.
type member struct {
	objects  map[b3.Root]*b3.Reader
	answers  map[b3.Root]plan.Answer // plan.Proved for others that it has, else plan.Absent
	shards   map[b3.Root][]b3.Root
	pieces   map[b3.Root]plan.Piece // that it holds
	lies     func(proof []byte) []byte
	claimed  []b3.Root
	told     []plan.Told
	stranger bool
	known    func([]plan.Told) []plan.Told
}

func (m *member) Answer(root b3.Root) plan.Answer {
	if a, ok := m.answers[root]; ok {
		return a
	}
	if m.objects[root] == nil {
		return plan.Absent
	}
	return plan.Proved
}

func (m *member) Claimed(_ peer.ID, roots []b3.Root) { m.claimed = append(m.claimed, roots...) }

func (m *member) Told(_ context.Context, _ peer.ID, told []plan.Told) ([]plan.Told, error) {
	m.told = append(m.told, told...)
	if m.known != nil {
		return m.known(told), nil
	}
	return told, nil
}

func (m *member) GrantLease(_ context.Context, _ peer.ID, root b3.Root) (bool, error) {
	return m.objects[root] != nil, nil
}

func (m *member) add(tb testing.TB, size int64, seed byte) b3.Root {
	tb.Helper()
	return m.hold(tb, bytes.Repeat([]byte{seed}, int(size)))
}

// addPattern adds the object whose byte number i is i mod 251.
func (m *member) addPattern(tb testing.TB, size int64) b3.Root {
	tb.Helper()
	p := make([]byte, size)
	for i := range p {
		p[i] = byte(i % 251)
	}
	return m.hold(tb, p)
}

func (m *member) hold(tb testing.TB, p []byte) b3.Root {
	tb.Helper()
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	if _, err := h.Write(p); err != nil {
		tb.Fatal(err)
	}
	root, size, err := h.Sum()
	if err != nil {
		tb.Fatal(err)
	}
	m.objects[root] = b3.NewReader(root, size,
		b3.FileSource(bytes.NewReader(p), bytes.NewReader(outboard.Bytes()), size))
	return root
}

// wire calls the server of a member as a session does, and keeps the sizes of the latest request.
type wire struct {
	server         *Server
	from           peer.ID
	asked          capability.Request
	noCap          bool
	calls, refused int
	answered       int
	request, reply int
}

func (w *wire) CallWith(ctx context.Context, _ peer.ID, m session.Message) ([]byte, error) {
	w.calls++
	r := &session.Request{Payload: m.Payload}
	if err := oap.DecodeJSON(r.Payload, &r.Envelope, true); err != nil {
		return nil, err
	}
	var err error
	if w.asked, err = Ask(r); err != nil {
		return nil, err
	}
	if !w.noCap {
		r.Grant = &capability.Grant{}
	}
	a := w.server.Handle(ctx, w.from, r)
	w.request, w.reply = len(m.Payload)+len(m.Cap), len(a.Payload)
	return a.Payload, a.Err
}

// newPair returns a client and the member that it asks.
func newPair(tb testing.TB) (*Client, *wire, *member) {
	tb.Helper()
	m := &member{
		objects: map[b3.Root]*b3.Reader{}, answers: map[b3.Root]plan.Answer{}, shards: map[b3.Root][]b3.Root{},
		pieces: map[b3.Root]plan.Piece{},
	}
	s, err := NewServer(ServerDeps{
		Env: env.Env{Metrics: prometheus.NewRegistry(), Limits: limits.NewRegistry(nil)}, Holder: m,
		Member: func(peer.ID) error {
			if m.stranger {
				return status.Errorf(status.Forbidden, "no member")
			}
			return nil
		},
		Proof: func(_ context.Context, root b3.Root, drawn int64) (plan.Piece, []byte, error) {
			s, err := m.slice(root, m.pieces[root], drawn)
			if err != nil {
				return 0, nil, err
			}
			p, err := m.objects[s.Root].ChunkProof(s.Chunk)
			if m.lies != nil {
				p = m.lies(p)
			}
			return m.pieces[root], p, err
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	from, err := test.RandPeerID()
	if err != nil {
		tb.Fatal(err)
	}
	w := &wire{server: s, from: from}
	return NewClient(ClientDeps{
		Call: w, Draw: Draw, Answered: func(peer.ID) { w.answered++ }, Refused: func(peer.ID) { w.refused++ },
		Capability: func(peer.ID, b3.Root) ([]byte, error) { return make([]byte, 256), nil },
		Chunks:     func(root b3.Root) (int64, error) { return 1 << 40, nil },
		Slice:      m.slice,
	}), w, m
}

// slice returns what proves a piece of an object: an object of its own, or a shard.
func (m *member) slice(root b3.Root, piece plan.Piece, drawn int64) (Slice, error) {
	if s, ok := m.shards[root]; ok && piece > 0 && int(piece) <= len(s) {
		root = s[piece-1]
	} else if piece > 0 {
		return Slice{}, status.Errorf(status.BadRange, "no shard %d", piece)
	}
	size := int64(1)
	if o := m.objects[root]; o != nil {
		size = o.Size()
	}
	return Slice{root, size, drawn % b3.Chunks(size)}, nil
}

// TestChallenge: each object has its own answer, and only a true proof counts.
func TestChallenge(t *testing.T) {
	t.Parallel()
	c, w, m := newPair(t)
	whole, empty, leaving := m.add(t, 3*b3.GroupSize+5, 1), m.add(t, 0, 0), m.add(t, 1, 2)
	m.answers[leaving] = plan.Leaving
	roots := []b3.Root{whole, {7}, empty, leaving}
	got, err := c.Challenge(t.Context(), w.from, roots)
	want := []plan.Response{{Answer: plan.Proved}, {Answer: plan.Absent}, {Answer: plan.Proved}, {Answer: plan.Leaving}}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	if !slices.Equal(m.claimed, roots) {
		t.Errorf("%d claims", len(m.claimed))
	}
	for name, lie := range map[string]func([]byte) []byte{
		"cut":     func(p []byte) []byte { return p[:len(p)/2] },
		"changed": func(p []byte) []byte { p[len(p)-1] ^= 1; return p },
		"none":    func([]byte) []byte { return nil },
	} {
		m.lies = lie
		if got, err := c.Challenge(t.Context(), w.from, []b3.Root{whole}); err != nil || got[0].Answer != plan.Absent {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestShard: a member proves the shard that it holds, and no other one.
func TestShard(t *testing.T) {
	t.Parallel()
	c, w, m := newPair(t)
	coded := m.add(t, 10, 1)
	m.shards[coded] = []b3.Root{m.add(t, 5*b3.GroupSize, 2), m.add(t, 5*b3.GroupSize, 3)}
	for piece, want := range map[plan.Piece]plan.Response{
		0: {Answer: plan.Proved}, 1: {Answer: plan.Proved, Piece: 1}, 2: {Answer: plan.Proved, Piece: 2},
		3: {Answer: plan.Absent},
	} {
		m.pieces[coded] = piece
		if got, err := c.Challenge(t.Context(), w.from, []b3.Root{coded}); err != nil || got[0] != want {
			t.Errorf("%d: %v, %v", piece, got, err)
		}
	}
	m.pieces[coded] = 1
	sent := c.deps.Slice
	c.deps.Slice = func(root b3.Root, piece plan.Piece, drawn int64) (Slice, error) {
		return sent(root, piece+1, drawn)
	}
	if got, err := c.Challenge(t.Context(), w.from, []b3.Root{coded}); err != nil || got[0].Answer != plan.Absent {
		t.Errorf("another shard counts as proved: %v, %v", got, err)
	}
}

// TestManyObjects: what does not fit into one request or answer is asked again.
func TestManyObjects(t *testing.T) {
	t.Parallel()
	c, w, m := newPair(t)
	var roots []b3.Root
	for i := range 300 {
		roots = append(roots, m.add(t, b3.ChunkSize*2, byte(i)))
	}
	got, err := c.Challenge(t.Context(), w.from, roots)
	if err != nil || slices.ContainsFunc(got, func(a plan.Response) bool { return a.Answer != plan.Proved }) ||
		len(got) != len(roots) {
		t.Fatalf("%v, %v", got, err)
	}
	if w.calls < 3 || w.calls > 5 {
		t.Errorf("%d requests", w.calls)
	}
	list := fullList(t, 40)
	known, err := c.Tell(t.Context(), w.from, list)
	if err != nil || len(known) != len(list) || w.request > oap.MaxJSON+oap.MaxCap {
		t.Fatalf("%d of %d, %v", len(known), len(list), err)
	}
	for i := range known {
		if known[i].Root != list[i].Root || !slices.Equal(known[i].Asked, list[i].Asked) ||
			!slices.Equal(known[i].Holders, list[i].Holders) {
			t.Fatalf("object %d: %+v", i, known[i])
		}
	}
}

// fullList returns what is told of n objects with as much as an object may have.
func fullList(tb testing.TB, n int) (list []plan.Told) {
	tb.Helper()
	id, err := test.RandPeerID()
	if err != nil {
		tb.Fatal(err)
	}
	for i := range n {
		t := plan.Told{Root: b3.Root{byte(i), 1}}
		for range plan.MaxTargets {
			t.Asked = append(t.Asked, plan.Asked{Origin: plan.ID(id), Target: meta.Target{Copies: 3, Seq: 1 << 40}})
		}
		for range plan.MaxSeen {
			t.Holders = append(t.Holders, plan.ID(id))
		}
		list = append(list, t)
	}
	return list
}

// TestRefused: a peer that is no member or shows no capability learns nothing and changes nothing.
func TestRefused(t *testing.T) {
	t.Parallel()
	c, w, m := newPair(t)
	root := m.add(t, 10, 1)
	for want, set := range map[status.Outcome]func(){
		status.Forbidden:       func() { m.stranger, w.noCap = true, false },
		status.Unauthenticated: func() { m.stranger, w.noCap = false, true },
	} {
		set()
		_, err := c.Challenge(t.Context(), w.from, []b3.Root{root})
		_, told := c.Tell(t.Context(), w.from, []plan.Told{{Root: root}})
		granted, lease := c.Lease(t.Context(), w.from, root)
		for _, err := range []error{err, told, lease} {
			if status.Of(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
		if want == status.Unauthenticated && w.refused != 3 {
			t.Errorf("%d of 3 capabilities are known to be refused", w.refused)
		}
		if granted || len(m.claimed)+len(m.told)+w.answered > 0 {
			t.Error("a stranger was heard")
		}
	}
}

// TestLease: a lease is asked with a capability of its object.
func TestLease(t *testing.T) {
	t.Parallel()
	c, w, m := newPair(t)
	root := m.add(t, 10, 1)
	granted, err := c.Lease(t.Context(), w.from, root)
	if err != nil || !granted || w.asked.Object != root || w.asked.Op != capability.Replicate || w.answered != 1 {
		t.Fatalf("%v, %v, %+v", granted, err, w.asked)
	}
}

// TestFalseAnswers: an answer that is not of the request is refused as upstream.
func TestFalseAnswers(t *testing.T) {
	t.Parallel()
	c, w, m := newPair(t)
	m.known = func(told []plan.Told) []plan.Told { return []plan.Told{{Root: b3.Root{9}}} }
	if _, err := c.Tell(t.Context(), w.from, []plan.Told{{Root: b3.Root{1}}}); status.Of(err) != status.Upstream {
		t.Errorf("another object: %v", err)
	}
	for _, v := range []any{
		proofsWire{}, proofsWire{make([]proof, 2)}, tellWire{}, "text",
		proofsWire{[]proof{{Proof: make([]byte, MaxAnswer)}}},
	} {
		p, err := encode(v)
		if err != nil {
			t.Fatal(err)
		}
		c.deps.Call = canned(p)
		if _, err := c.Challenge(t.Context(), w.from, []b3.Root{{1}}); status.Of(err) != status.Upstream {
			t.Errorf("%.40x: %v", p, err)
		}
	}
	c.deps.Call = canned("\xa1\x01\x81\x83\x18\x63\x00\x40") // the answer 99
	if got, err := c.Challenge(t.Context(), w.from, []b3.Root{{1}}); err != nil || got[0].Answer != plan.Busy {
		t.Errorf("%v, %v", got, err)
	}
}

// canned is a Caller with one answer.
type canned []byte

func (p canned) CallWith(context.Context, peer.ID, session.Message) ([]byte, error) { return p, nil }

// TestServerDeps: a server without what it needs is an error.
func TestServerDeps(t *testing.T) {
	t.Parallel()
	if _, err := NewServer(ServerDeps{}); err == nil || !strings.Contains(err.Error(), "needs") {
		t.Error(err)
	}
}

// TestProofFails: what the store says of an object decides how the node answers.
func TestProofFails(t *testing.T) {
	t.Parallel()
	for o, want := range map[error]plan.Answer{
		status.Errorf(status.NotFound, "x"): plan.Absent,
		status.Errorf(status.Busy, "x"):     plan.Busy,
		errors.New("disk"):                  plan.Busy,
	} {
		c, w, m := newPair(t)
		root := m.add(t, 10, 1)
		w.server.deps.Proof = func(context.Context, b3.Root, int64) (plan.Piece, []byte, error) { return 0, nil, o }
		if got, err := c.Challenge(t.Context(), w.from, []b3.Root{root}); err != nil || got[0].Answer != want {
			t.Errorf("%v: %v, %v", o, got, err)
		}
	}
}

// BenchmarkChallenge is one challenge of one object of 64 MiB: its bytes each way,
// and beside it the hash of one group.
func BenchmarkChallenge(b *testing.B) {
	c, w, m := newPair(b)
	root := m.add(b, 64<<20, 1)
	b.Run("challenge", func(b *testing.B) {
		for b.Loop() {
			got, err := c.Challenge(b.Context(), w.from, []b3.Root{root})
			if err != nil || got[0].Answer != plan.Proved {
				b.Fatal(got, err)
			}
		}
		b.ReportMetric(float64(w.request), "request-bytes")
		b.ReportMetric(float64(w.reply), "answer-bytes")
		if max(w.request, w.reply) > 2<<10 {
			b.Errorf("%d and %d bytes", w.request, w.reply)
		}
	})
	b.Run("group", func(b *testing.B) {
		h, p := b3.NewHasher(nil, 1), make([]byte, b3.GroupSize+1)
		for b.Loop() {
			h.Reset(nil)
			_, _ = h.Write(p) // a Hasher without output does not fail
			if _, _, err := h.Sum(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
