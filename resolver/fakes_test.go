package resolver

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/object"
	"allium/protocols/record"
	"allium/protocols/status"
	"allium/resolver/providers"
	"allium/resolver/trace"
)

// Numbers of the parts that the tests of the whole rely on.
const (
	usualSpans  = 2
	allDoubled  = 4 << 20
	doubledPart = 16
	lateAfter   = 30 * time.Millisecond
	linger      = 2 * time.Second
	readAhead   = 1024 // groups
	maxBatched  = 1 << 20
	firstSpan   = (1 << 20) / b3.GroupSize
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// blob is an object with its tree.
type blob struct {
	root     b3.Root
	data     []byte
	outboard []byte
}

func newBlob(p []byte) *blob {
	if len(p) <= b3.GroupSize {
		return &blob{root: b3.Sum(p), data: p}
	}
	var ob bytes.Buffer
	h := b3.NewHasher(&ob, 1)
	_, _ = h.Write(p)
	root, _, err := h.Sum()
	if err != nil {
		panic(err)
	}
	return &blob{root: root, data: p, outboard: ob.Bytes()}
}

// randomBlob is a blob of size bytes that depend on seed alone.
func randomBlob(seed uint64, size int) *blob {
	p := make([]byte, size)
	r := rand.New(rand.NewPCG(seed, uint64(size)))
	for i := 0; i+8 <= size; i += 8 {
		v := r.Uint64()
		for k := range 8 {
			p[i+k] = byte(v >> (8 * k))
		}
	}
	return newBlob(p)
}

func (b *blob) source() b3.Source {
	return b3.FileSource(bytes.NewReader(b.data), bytes.NewReader(b.outboard), int64(len(b.data)))
}

// fakeLocal is a store in memory. Like the real one it shows a put only after
// the next flush.
type fakeLocal struct {
	mu      sync.Mutex
	objects map[b3.Root]*blob
	pending map[b3.Root]*blob
	order   []b3.Root // of becoming visible
	ingests map[b3.Root]*fakeIngest
	partial map[b3.Root]*fakeIngest // suspended
	damaged map[b3.Root]bool
	leases  map[b3.Root]int
	flushes int
	putErr  error
	takes   time.Duration // how long Has and Put take
	space   int64         // groups that fit into an ingest; 0: all
	aborted int
	kept    int    // suspended
	opens   int    // calls of Open
	shown   func() // called by Commit when the object is visible; nil: none
}

func newFakeLocal() *fakeLocal {
	return &fakeLocal{
		objects: map[b3.Root]*blob{}, pending: map[b3.Root]*blob{}, ingests: map[b3.Root]*fakeIngest{},
		partial: map[b3.Root]*fakeIngest{},
		damaged: map[b3.Root]bool{}, leases: map[b3.Root]int{},
	}
}

func (l *fakeLocal) add(b *blob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.show(b)
}

// show makes b visible. mu is held.
func (l *fakeLocal) show(b *blob) {
	delete(l.damaged, b.root)
	if l.objects[b.root] == nil {
		l.order = append(l.order, b.root)
	}
	l.objects[b.root] = b
}

func (l *fakeLocal) has(root b3.Root) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects[root] != nil && !l.damaged[root]
}

// opened is how often an object was asked for.
func (l *fakeLocal) opened() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opens
}

func (l *fakeLocal) Open(_ context.Context, root b3.Root) (b3.Object, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opens++
	b := l.objects[root]
	switch {
	case b == nil:
		return nil, status.Errorf(status.NotFound, "fake: %s is not here", root)
	case l.damaged[root]:
		return nil, status.Errorf(status.Corrupt, "fake: %s is damaged", root)
	}
	return &fakeObject{size: int64(len(b.data)), r: b3.NewReader(root, int64(len(b.data)), b.source())}, nil
}

func (l *fakeLocal) Has(ctx context.Context, roots []b3.Root) ([]bool, error) {
	if err := limits.Sleep(ctx, l.takes); err != nil {
		return nil, err
	}
	if len(roots) > 1024 {
		return nil, status.Errorf(status.BadRequest, "fake: %d roots", len(roots))
	}
	out := make([]bool, len(roots))
	for i, root := range roots {
		out[i] = l.has(root)
	}
	return out, nil
}

func (l *fakeLocal) Put(ctx context.Context, root b3.Root, p []byte) error {
	if err := limits.Sleep(ctx, l.takes); err != nil {
		return err
	}
	b := newBlob(slices.Clone(p))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.putErr != nil {
		return l.putErr
	}
	if b.root != root {
		return status.Errorf(status.BadDigest, "fake: put %s as %s", b.root, root)
	}
	l.pending[root] = b
	return nil
}

func (l *fakeLocal) Flush(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flushes++
	for _, b := range l.pending {
		l.show(b)
	}
	clear(l.pending)
	return nil
}

func (l *fakeLocal) AwaitDurable(context.Context, b3.Root) error { return nil }

func (l *fakeLocal) Lease(roots ...b3.Root) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range roots {
		l.leases[r]++
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, r := range roots {
			if l.leases[r]--; l.leases[r] == 0 {
				delete(l.leases, r)
			}
		}
	}
}

func (l *fakeLocal) Ingest(_ context.Context, root b3.Root, size int64) (Ingest, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.putErr != nil {
		return nil, l.putErr
	}
	if l.ingests[root] != nil {
		return nil, status.Errorf(status.Conflict, "fake: two ingests of %s", root)
	}
	in := &fakeIngest{
		l: l, root: root, size: size, changed: make(chan struct{}),
		groups: map[int64][]byte{}, parents: map[int64][b3.ParentSize]byte{},
	}
	if old := l.partial[root]; old != nil {
		in.groups, in.parents, in.proved, in.held = old.groups, old.parents, old.proved, old.held
		delete(l.partial, root)
	}
	l.ingests[root] = in
	return in, nil
}

type fakeObject struct {
	size int64
	r    *b3.Reader
}

func (o *fakeObject) Size() int64            { return o.size }
func (o *fakeObject) Reader() *b3.Reader     { return o.r }
func (o *fakeObject) Failed(err error) error { return err }
func (o *fakeObject) Close() error           { return nil }

// fakeIngest keeps items in maps.
type fakeIngest struct {
	l    *fakeLocal
	root b3.Root
	size int64

	mu      sync.Mutex
	groups  map[int64][]byte
	parents map[int64][b3.ParentSize]byte
	changed chan struct{}
	proved  bool // the size
	held    int64
	over    bool
	err     error
}

var errSuspended = status.Errorf(status.Canceled, "fake: suspended")

func (l *fakeLocal) Partial(_ context.Context, root b3.Root) (int64, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.partial[root]; p != nil {
		return p.size, true, nil
	}
	return 0, false, nil
}

// held is how many bytes of a partial object are here, and how many transfers
// left such.
func (l *fakeLocal) held(b *blob) (bytes int64, kept int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.partial[b.root]; p != nil {
		bytes = p.Held()
	}
	return bytes, l.kept
}

// keep leaves groups [lo, hi) of b as a partial object.
func (l *fakeLocal) keep(t testing.TB, b *blob, lo, hi int64) {
	t.Helper()
	in, err := l.Ingest(t.Context(), b.root, int64(len(b.data)))
	if err != nil {
		t.Fatal(err)
	}
	last := int64(len(b.data)) - 1
	walk, err := b3.NewWalk(b.root, last+1, []b3.Range{{Start: lo * b3.GroupSize, End: min(hi*b3.GroupSize, last+1)},
		{Start: last, End: -1}})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, b3.GroupSize)
	for {
		if _, ok := walk.Next(); !ok {
			break
		}
		p, err := walk.Fill(b.source(), buf)
		if err == nil {
			err = in.Write(p)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	in.Suspend()
}

func (in *fakeIngest) Has(g int64) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	_, ok := in.groups[g]
	return ok
}

func (in *fakeIngest) Missing(from, to int64) (lo, hi int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for lo = from; lo < to && in.groups[lo] != nil; lo++ {
	}
	for hi = lo; hi < to && in.groups[hi] == nil; hi++ {
	}
	return lo, hi
}

func (in *fakeIngest) Held() (n int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.held
}

func (in *fakeIngest) Suspend() {
	in.l.mu.Lock()
	defer in.l.mu.Unlock()
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over {
		return
	}
	in.over, in.err = true, errSuspended
	close(in.changed)
	delete(in.l.ingests, in.root)
	if in.proved {
		in.l.partial[in.root] = in
	}
	in.l.kept++
}

func (in *fakeIngest) Write(p b3.Proved) error {
	if !p.Valid() || p.Root() != in.root || p.Size() != in.size {
		return status.Errorf(status.BadRequest, "fake: foreign item")
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over {
		return status.Errorf(status.Conflict, "fake: write after the end")
	}
	if p.IsParent() {
		in.parents[p.Node()] = [b3.ParentSize]byte(p.Data())
		return nil
	}
	if n := in.l.space; n > 0 && int64(len(in.groups)) >= n {
		return status.Errorf(status.NoSpace, "full")
	}
	if in.groups[p.Group()] == nil {
		in.held += int64(len(p.Data()))
	}
	in.groups[p.Group()] = append([]byte{}, p.Data()...)
	in.proved = in.proved || p.SizeProved()
	close(in.changed)
	in.changed = make(chan struct{})
	return nil
}

func (in *fakeIngest) Wait(ctx context.Context, g int64) error {
	for {
		in.mu.Lock()
		_, ok := in.groups[g]
		changed, err := in.changed, in.err
		in.mu.Unlock()
		if err != nil || ok {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (in *fakeIngest) Open() (b3.Object, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over {
		return nil, status.Errorf(status.Conflict, "fake: the ingest is over")
	}
	return &fakeObject{size: in.size, r: b3.NewReader(in.root, in.size, in)}, nil
}

func (in *fakeIngest) ReadGroup(g int64, p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	q, ok := in.groups[g]
	if !ok {
		return 0, status.Errorf(status.NotFound, "fake: group %d has not arrived", g)
	}
	return copy(p, q), nil
}

func (in *fakeIngest) ReadParents(n int64, p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	q, ok := in.parents[n]
	if !ok {
		return 0, status.Errorf(status.NotFound, "fake: parent %d has not arrived", n)
	}
	return copy(p, q[:]) / b3.ParentSize, nil
}

func (in *fakeIngest) Commit(context.Context) error {
	in.mu.Lock()
	in.over = true
	data := make([]byte, 0, in.size)
	for g := range b3.Groups(in.size) {
		data = append(data, in.groups[g]...)
	}
	in.mu.Unlock()
	b := newBlob(data)
	if b.root != in.root {
		return status.Errorf(status.Precondition, "fake: commit of an incomplete object")
	}
	in.l.mu.Lock()
	in.l.show(b)
	delete(in.l.ingests, in.root)
	in.l.mu.Unlock()
	if in.l.shown != nil {
		in.l.shown()
	}
	return nil
}

func (in *fakeIngest) Abort(err error) {
	in.mu.Lock()
	if in.over {
		in.mu.Unlock()
		return
	}
	in.over, in.err = true, err
	close(in.changed)
	in.mu.Unlock()
	in.l.mu.Lock()
	defer in.l.mu.Unlock()
	delete(in.l.ingests, in.root)
	in.l.aborted++
}

// ask is one request as a peer saw it.
type ask struct {
	peer peer.ID
	req  object.GetRequest
}

// fakePeer has objects and manners. Its fields are set before it is asked.
type fakePeer struct {
	objects map[b3.Root]*blob

	latency time.Duration                            // before each answer
	rate    time.Duration                            // wait for this node's rate, before each answer
	silent  func() bool                              // it does not answer now
	fails   func(ctx context.Context) error          // in place of an answer; nil: it answers
	refuse  func(n int) error                        // the n-th request, from 0; nil error: answer it
	spoil   func(root b3.Root, g int64) bool         // flip a bit of this group
	before  func(ctx context.Context, g int64) error // called before group g of the walk is handed over
	lieSize int64                                    // added to every size
	part    func(g int64) bool                       // it has these groups alone; nil: all
	asked   int

	at     atomic.Pointer[string] // the only address where it answers; nil: any
	served atomic.Int64           // groups handed over in answers, those of size proofs left out
}

// fakeNet is the object client of a network of fakePeers. Items are proved by
// real walks, as the real client does.
type fakeNet struct {
	mu       sync.Mutex
	peers    map[peer.ID]*fakePeer
	asks     []ask
	inflight map[peer.ID]int
	peak     int
	peaks    map[peer.ID]int
	addrs    map[peer.ID]bool
	known    map[string]bool // addresses
	redials  []peer.ID
}

func newFakeNet() *fakeNet {
	return &fakeNet{peers: map[peer.ID]*fakePeer{}, inflight: map[peer.ID]int{}, peaks: map[peer.ID]int{},
		addrs: map[peer.ID]bool{}, known: map[string]bool{}}
}

// peer adds a peer that has blobs.
func (n *fakeNet) peer(id peer.ID, blobs ...*blob) *fakePeer {
	p := &fakePeer{objects: map[b3.Root]*blob{}}
	for _, b := range blobs {
		p.objects[b.root] = b
	}
	n.peers[id] = p
	return p
}

func (n *fakeNet) AddAddrs(p peer.AddrInfo) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[p.ID] = true
	for _, a := range p.Addrs {
		n.known[a.String()] = true
	}
}

func (n *fakeNet) Redial(p peer.ID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.redials = append(n.redials, p)
}

// requests lists what was asked of p; of everybody when p is empty.
func (n *fakeNet) requests(p peer.ID) []object.GetRequest {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []object.GetRequest
	for _, a := range n.asks {
		if p == "" || a.peer == p {
			out = append(out, a.req)
		}
	}
	return out
}

func (n *fakeNet) Get(ctx context.Context, id peer.ID, req object.GetRequest, sink object.Sink) error {
	n.mu.Lock()
	p := n.peers[id]
	n.asks = append(n.asks, ask{id, req})
	known := n.addrs[id] && (p == nil || p.at.Load() == nil || n.known[*p.at.Load()])
	var turn int
	if p != nil {
		turn = p.asked
		p.asked++
	}
	n.inflight[id]++
	n.peak = max(n.peak, n.inflight[id])
	n.peaks[id] = max(n.peaks[id], n.inflight[id])
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.inflight[id]--
		n.mu.Unlock()
	}()
	if p == nil || !known {
		return status.Errorf(status.TransportDown, "fake: cannot reach %s", id)
	}
	if p.latency > 0 {
		select {
		case <-time.After(p.latency):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if p.rate > 0 {
		if err := req.Waiting(func() error { time.Sleep(p.rate); return ctx.Err() }); err != nil {
			return err
		}
	}
	if p.silent != nil && p.silent() {
		return stall(ctx)
	}
	if p.fails != nil {
		return p.fails(ctx)
	}
	if p.refuse != nil {
		if err := p.refuse(turn); err != nil {
			return err
		}
	}
	for i, root := range req.Objs {
		if err := p.answer(ctx, i, root, req, sink); err != nil {
			return err
		}
	}
	return nil
}

func (n *fakeNet) Have(_ context.Context, id peer.ID, roots []b3.Root) ([]b3.Presence, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.peers[id]
	if p == nil {
		return nil, status.Errorf(status.TransportDown, "fake: cannot reach %s", id)
	}
	have := make([]b3.Presence, len(roots))
	for i, root := range roots {
		switch {
		case p.objects[root] == nil:
		case p.part != nil:
			have[i] = b3.Partial
		default:
			have[i] = b3.Complete
		}
	}
	return have, nil
}

func (n *fakeNet) Held(
	ctx context.Context, id peer.ID, root b3.Root, from, to int64,
) (b3.Presence, []byte, error) {
	have, err := n.Have(ctx, id, []b3.Root{root})
	if err != nil {
		return b3.Absent, nil, err
	}
	if have[0] != b3.Partial {
		return have[0], nil, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	groups := make([]byte, (to-from)/8)
	for g := from; g < to; g++ {
		if n.peers[id].part(g) {
			groups[(g-from)/8] |= 1 << ((g - from) % 8)
		}
	}
	return b3.Partial, groups, nil
}

func (p *fakePeer) answer(ctx context.Context, i int, root b3.Root, req object.GetRequest, sink object.Sink) error {
	b := p.objects[root]
	if b == nil {
		return sink.End(i, status.Errorf(status.NotFound, "fake: no %s", root))
	}
	if p.part != nil && !p.hasAll(b, req) {
		return sink.End(i, status.Errorf(status.NotFound, "fake: only a part of %s", root))
	}
	if err := sink.Begin(i, int64(len(b.data))+p.lieSize); err != nil {
		return err
	}
	if err := p.items(ctx, i, b, req, sink); err != nil {
		_ = sink.End(i, err)
		return err
	}
	return sink.End(i, nil)
}

// hasAll reports whether a peer with a part can answer the whole request.
func (p *fakePeer) hasAll(b *blob, req object.GetRequest) bool {
	ranges := req.Ranges
	if len(ranges) == 0 {
		ranges = []b3.Range{{Start: 0, End: -1}}
	}
	size := int64(len(b.data))
	if req.SizeProof {
		ranges = append(slices.Clone(ranges), b3.Range{Start: size - 1, End: size})
	}
	for _, r := range ranges {
		if r.End < 0 {
			r.End = size
		}
		for g := r.Start / b3.GroupSize; g*b3.GroupSize < min(r.End, size); g++ {
			if !p.part(g) {
				return false
			}
		}
	}
	return true
}

func (p *fakePeer) items(ctx context.Context, i int, b *blob, req object.GetRequest, sink object.Sink) error {
	size := int64(len(b.data))
	if req.SizeProof {
		send, _ := (*b3.HashQueue)(nil).SizeProof(b.root, size)
		take, err := (*b3.HashQueue)(nil).SizeProof(b.root, size+p.lieSize)
		if err != nil {
			return err
		}
		if err := p.walk(ctx, i, b, send, take, sink, false); err != nil {
			return err
		}
	}
	send, err := b3.NewWalk(b.root, size, req.Ranges)
	if err != nil {
		return err
	}
	take, err := b3.NewWalk(b.root, size+p.lieSize, req.Ranges)
	if err != nil {
		return err
	}
	return p.walk(ctx, i, b, send, take, sink, true)
}

func (p *fakePeer) walk(ctx context.Context, i int, b *blob, send, take *b3.Walk, sink object.Sink,
	manners bool) error {
	buf := make([]byte, min(max(len(b.data), b3.ParentSize), b3.GroupSize))
	at := p.at.Load()
	for {
		item, ok := send.Next()
		if !ok {
			return nil
		}
		if p.at.Load() != at {
			return status.Errorf(status.TransportDown, "fake: the connection was cut")
		}
		if manners && !item.Parent && p.before != nil {
			if err := p.before(ctx, item.Group); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		sent, err := send.Fill(b.source(), buf)
		if err != nil {
			return err
		}
		wire := sent.Data()
		if manners && len(wire) > 0 && !item.Parent && p.spoil != nil && p.spoil(b.root, item.Group) {
			wire[len(wire)/2] ^= 1
		}
		got, err := take.Accept(wire)
		if err != nil {
			return err
		}
		if err := sink.Item(i, got); err != nil {
			return err
		}
		if manners && !item.Parent {
			p.served.Add(1)
		}
		clear(buf) // p.Data is valid only during the call
	}
}

// fakeFinder knows who has what.
type fakeFinder struct {
	mu     sync.Mutex
	who    map[b3.Root][]peer.ID
	delay  time.Duration // before each
	hang   bool          // never ends by itself
	linger time.Duration // time to end when told to
	err    error
	block  <-chan struct{} // each ends when it is closed, and finds nobody; nil: at once
	calls  int
	at     map[peer.ID]string // addresses
}

// moves puts a peer at an address: it is found there, and its requests that run are cut.
func (f *fakeFinder) moves(p *fakePeer, id peer.ID, addr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[peer.ID]string{}
	}
	f.at[id] = addr
	p.at.Store(&addr)
}

func (f *fakeFinder) FindProviders(
	ctx context.Context, root b3.Root, _ providers.FindOptions,
) iter.Seq2[record.Provider, error] {
	return func(yield func(record.Provider, error) bool) {
		f.mu.Lock()
		f.calls++
		who, delay, hang, linger, err := slices.Clone(f.who[root]), f.delay, f.hang, f.linger, f.err
		block, at := f.block, maps.Clone(f.at)
		f.mu.Unlock()
		for _, p := range who {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return
			}
			info := peer.AddrInfo{ID: p}
			if a := at[p]; a != "" {
				info.Addrs = []ma.Multiaddr{ma.StringCast(a)}
			}
			if !yield(record.Provider{AddrInfo: info}, nil) {
				return
			}
		}
		if err != nil {
			yield(record.Provider{}, err)
		}
		if block != nil {
			select {
			case <-block:
			case <-ctx.Done():
			}
		}
		if hang {
			<-ctx.Done()
			time.Sleep(linger)
		}
	}
}

func (f *fakeFinder) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// world is a resolver among fakes.
type world struct {
	*Resolver
	local  *fakeLocal
	net    *fakeNet
	finder *fakeFinder
	ring   *trace.Ring
	stop   func() // ends Run and waits for it

	metrics prometheus.Gatherer
}

// counter reads a counter, or a gauge; label is the value of its only label.
func (w *world) counter(t testing.TB, name string, label ...string) float64 {
	t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(label) == 0 || m.GetLabel()[0].GetValue() == label[0] {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// newWorld starts a resolver; inside a synctest bubble, or outside. change may
// be nil.
func newWorld(t testing.TB, change func(*Config, *Deps)) *world {
	t.Helper()
	w := &world{local: newFakeLocal(), net: newFakeNet(), finder: &fakeFinder{who: map[b3.Root][]peer.ID{}}}
	cfg, deps := DefaultConfig(), Deps{
		Env:   env.Env{Metrics: prometheus.NewRegistry()},
		Local: w.local, Providers: w.finder, Objects: w.net, Dialer: w.net, Self: "self",
	}
	deps.Trace = trace.New(trace.Deps{Env: env.Env{Metrics: deps.Metrics}})
	if change != nil {
		change(&cfg, &deps)
	}
	if g, ok := deps.Metrics.(prometheus.Gatherer); ok {
		w.metrics = g
	}
	w.ring = deps.Trace
	r, err := New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	w.Resolver = r
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := r.Run(ctx, func() { close(ready) }); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	<-ready
	w.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(func() {
		w.stop()
		w.check(t)
	})
	return w
}

// check finds what must not be left when all calls have returned.
func (w *world) check(t testing.TB) {
	t.Helper()
	w.local.mu.Lock()
	defer w.local.mu.Unlock()
	if n := len(w.local.leases); n > 0 {
		t.Errorf("%d leases are left", n)
	}
	if n := len(w.local.ingests); n > 0 {
		t.Errorf("%d ingests are left", n)
	}
	if n := w.counter(t, "resolver_transfers", "all"); n > 0 {
		t.Errorf("%v transfers are left", n)
	}
	if n := w.counter(t, "trace_ring_entries", "running"); n != 0 {
		t.Errorf("%v lookups are recorded as running", n)
	}
	if n := w.counter(t, "resolver_transfers", "lingering"); n != 0 {
		t.Errorf("%v transfers linger", n)
	}
	if w.local.aborted > 0 {
		t.Error("what was verified was thrown away")
	}
}

// has says that those peers have each of the blobs, to the finder too.
func (w *world) has(who []peer.ID, blobs ...*blob) {
	for _, b := range blobs {
		w.finder.who[b.root] = who
	}
}

// every makes each group take that long, until the asker gives up.
func every(d time.Duration) func(context.Context, int64) error {
	return func(ctx context.Context, _ int64) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// paced lets one group go every d, over all requests to the peer.
func paced(d time.Duration) func(context.Context, int64) error {
	var mu sync.Mutex
	var free time.Time
	return func(ctx context.Context, _ int64) error {
		mu.Lock()
		free = free.Add(d)
		if now := time.Now(); free.Before(now) {
			free = now.Add(d)
		}
		wait := time.Until(free)
		mu.Unlock()
		return every(wait)(ctx, 0)
	}
}

// times counts how often each group of b was asked of p, or of anybody.
func (w *world) times(b *blob, p peer.ID) map[int64]int {
	times := map[int64]int{}
	for _, req := range w.net.requests(p) {
		if req.Objs[0] != b.root {
			continue
		}
		for _, r := range req.Ranges {
			for g := r.Start / group; g*group < min(r.End, int64(len(b.data))); g++ {
				times[g]++
			}
		}
	}
	return times
}

// asked is how many groups of b were asked of p, or of anybody.
func (w *world) asked(b *blob, p peer.ID) (n int) {
	for _, k := range w.times(b, p) {
		n += k
	}
	return n
}

// onlyOnce checks that no group of b was asked for twice.
func (w *world) onlyOnce(t testing.TB, b *blob) {
	t.Helper()
	for g, n := range w.times(b, "") {
		if n > 1 {
			t.Errorf("group %d was asked for %d times", g, n)
		}
	}
}

// dir builds a directory of entries and returns its manifest objects, the root
// last.
func dir(t testing.TB, entries ...manifest.Entry) []*blob {
	t.Helper()
	var nodes []*blob
	b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) {
		n := newBlob(slices.Clone(p))
		nodes = append(nodes, n)
		return n.root, nil
	})
	slices.SortFunc(entries, func(a, b manifest.Entry) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	for _, e := range entries {
		if err := b.Add(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, _, err := b.Close(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if last := nodes[len(nodes)-1]; last.root != root {
		t.Fatal("the root is not the last node")
	}
	return nodes
}

func file(name string, b *blob) manifest.Entry {
	return manifest.Entry{Name: name, Root: b.root, Size: int64(len(b.data))}
}

func subdir(name string, b *blob) manifest.Entry {
	return manifest.Entry{Name: name, Kind: manifest.Directory, Root: b.root, Size: int64(len(b.data))}
}

// flat is a directory of n small files of that size: all its objects, the root
// last.
func flat(t testing.TB, seed uint64, n, size int) []*blob {
	t.Helper()
	var all []*blob
	var entries []manifest.Entry
	for i := range n {
		b := randomBlob(seed<<32+uint64(i), size)
		all = append(all, b)
		entries = append(entries, file(fmt.Sprintf("file-%06d", i), b))
	}
	return append(all, dir(t, entries...)...)
}
