package object

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// memStore is a Store in memory.
type memStore struct {
	mu      sync.Mutex
	objects map[b3.Root]*memObject
	open    atomic.Int64  // objects open now
	closed  chan struct{} // told of each Close, if somebody listens
	gate    chan struct{} // if set, OpenObject waits for it or for ctx
}

type memObject struct {
	store  *memStore
	root   b3.Root
	source b3.Source
	size   int64
	part   []b3.Range // that is here; nil for all
	failed []error    // what Failed was told; guarded by store.mu
}

func newMemStore() *memStore {
	return &memStore{objects: map[b3.Root]*memObject{}, closed: make(chan struct{}, 1)}
}

func (s *memStore) put(data []byte) b3.Root {
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	_, _ = h.Write(data)
	root, _, err := h.Sum()
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(len(data))
	s.objects[root] = &memObject{store: s, root: root,
		source: b3.FileSource(bytes.NewReader(data), bytes.NewReader(outboard.Bytes()), size), size: size}
	return root
}

func (s *memStore) get(root b3.Root) *memObject {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[root]
}

func (s *memStore) OpenObject(ctx context.Context, root b3.Root) (Object, error) {
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	o := s.get(root)
	if o == nil {
		return nil, status.Errorf(status.NotFound, "test store: no %s", root)
	}
	s.open.Add(1)
	return o, nil
}

func (s *memStore) Presence(_ context.Context, roots []b3.Root) ([]b3.Presence, error) {
	present := make([]b3.Presence, len(roots))
	for i, r := range roots {
		switch o := s.get(r); {
		case o == nil:
		case o.part != nil:
			present[i] = b3.Partial
		default:
			present[i] = b3.Complete
		}
	}
	return present, nil
}

func (o *memObject) Size() int64        { return o.size }
func (o *memObject) Reader() *b3.Reader { return b3.NewReader(o.root, o.size, o.source) }

func (o *memObject) Covers(start, end int64) bool {
	return o.part == nil || slices.ContainsFunc(o.part,
		func(r b3.Range) bool { return r.Start <= start && end <= r.End })
}

func (o *memObject) Failed(err error) error {
	o.store.mu.Lock()
	defer o.store.mu.Unlock()
	o.failed = append(o.failed, err)
	return err
}

func (o *memObject) Close() error {
	o.store.open.Add(-1)
	select {
	case o.store.closed <- struct{}{}:
	default:
	}
	return nil
}

// collect is a Sink that puts objects together and checks the order of calls.
type collect struct {
	t       testing.TB
	objs    []b3.Root
	begun   int // objects that began
	ended   int // objects that ended
	current bool
	sizes   map[int]int64
	data    map[int][]byte
	errs    map[int]error
	groups  map[int]int
	proved  map[int]bool // the size was proved
	fail    error        // returned by Item
}

func newCollect(t testing.TB, objs ...b3.Root) *collect {
	return &collect{
		t: t, objs: objs, sizes: map[int]int64{}, data: map[int][]byte{}, errs: map[int]error{},
		groups: map[int]int{}, proved: map[int]bool{},
	}
}

func (c *collect) Begin(i int, size int64) error {
	if c.current || i != c.ended {
		c.t.Errorf("Begin(%d) out of turn", i)
	}
	c.begun++
	c.current = true
	c.sizes[i] = size
	return nil
}

func (c *collect) Item(i int, p b3.Proved) error {
	if !c.current || i != c.ended {
		c.t.Errorf("Item(%d) out of turn", i)
	}
	if !p.Valid() || p.Root() != c.objs[i] {
		c.t.Errorf("Item(%d) of %s, valid %v", i, p.Root(), p.Valid())
	}
	if c.fail != nil {
		return c.fail
	}
	c.proved[i] = c.proved[i] || p.SizeProved()
	if p.IsParent() {
		return nil
	}
	c.groups[i]++
	end := p.Offset() + int64(len(p.Data()))
	if int64(len(c.data[i])) < end {
		c.data[i] = append(c.data[i], make([]byte, end-int64(len(c.data[i])))...)
	}
	copy(c.data[i][p.Offset():], p.Data())
	return nil
}

func (c *collect) End(i int, err error) error {
	if i != c.ended {
		c.t.Errorf("End(%d) out of turn", i)
	}
	c.current = false
	c.ended++
	c.errs[i] = err
	return nil
}

// testData is n reproducible bytes.
func testData(n int, seed uint64) []byte {
	p := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = r.Read(p)
	return p
}
