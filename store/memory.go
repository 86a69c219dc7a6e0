package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/arena"
)

// memory is the backend that keeps everything in RAM, under a hard cap, outside
// of the Go heap. Nothing waits for a disk, so deferred objects are visible at
// once after the put and flush has nothing to do.
//
// What a reader has open stays where it is, and in the cap, until it is closed:
// a small object is copied while mu is held, a large one is counted.
type memory struct {
	limit int64
	clock *clock
	arena *arena.Arena // from open on
	count totals

	mu      sync.RWMutex
	objects [256]map[b3.Root]memObject // by first byte, so that a listing sorts one part at a time
	large   map[b3.Root]ramPair        // the bytes of those above one group
	pinned  map[b3.Root]map[string]Pin
	parts   map[b3.Root]*memPart

	incoming map[uploadID]ramPair // the bytes of uploads
}

// memObject has no pointer in it, nor has its key: the garbage collector passes
// over a million of them.
type memObject struct {
	size        int64
	body        arena.Extent // of a small object
	added, used second
	corrupt     bool
}

func (o memObject) entry(root b3.Root) entry {
	return entry{root: root, size: o.size, corrupt: o.corrupt, added: o.added, used: max(o.used, o.added)}
}

func newMemory(limit int64, clock *clock) *memory {
	return &memory{limit: limit, clock: clock, large: map[b3.Root]ramPair{}, pinned: map[b3.Root]map[string]Pin{}, parts: map[b3.Root]*memPart{}, incoming: map[uploadID]ramPair{}}
}

func (m *memory) open(context.Context) (err error) {
	if m.arena, err = arena.New(m.limit); err != nil {
		return status.Errorf(status.NoSpace, "store.memory_bytes: %w; set it lower", err)
	}
	return nil
}

func (m *memory) serve(ctx context.Context) { <-ctx.Done() }

// close forgets everything. The memory itself goes with the last reader.
func (m *memory) close() error {
	m.mu.Lock()
	m.objects = [256]map[b3.Root]memObject{}
	m.large, m.pinned, m.parts, m.incoming = nil, nil, nil, nil
	m.mu.Unlock()
	m.arena.Release()
	return nil
}

func (m *memory) lookup(root b3.Root) (memObject, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[root[0]][root]
	return o, ok
}

func (m *memory) get(root b3.Root) (entry, bool, error) {
	o, ok := m.lookup(root)
	return o.entry(root), ok, nil
}

func (m *memory) entries(root b3.Root, page []entry) ([]entry, error) {
	for part := int(root[0]); part < len(m.objects) && len(page) < cap(page); part++ {
		page = append(page, m.first(part, root, cap(page)-len(page))...)
	}
	return page, nil
}

// first returns the first n entries of a part from root on, in order. It holds
// twice as many at most.
func (m *memory) first(part int, root b3.Root, n int) []entry {
	found := make([]entry, 0, 2*n)
	cut := func() {
		slices.SortFunc(found, func(a, b entry) int { return compareRoots(a.root, b.root) })
		found = found[:min(n, len(found))]
	}
	var last b3.Root // no later one can be among the first
	m.mu.RLock()
	defer m.mu.RUnlock()
	for r, o := range m.objects[part] {
		if compareRoots(r, root) < 0 || !last.IsZero() && compareRoots(r, last) > 0 {
			continue
		}
		if found = append(found, o.entry(r)); len(found) == cap(found) {
			cut()
			last = found[n-1].root
		}
	}
	cut()
	return found
}

func compareRoots(a, b b3.Root) int { return bytes.Compare(a[:], b[:]) }

func (m *memory) read(e entry) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[e.root[0]][e.root]
	if !ok {
		return nil, damage("missing")
	}
	p := make([]byte, o.body.Len())
	m.arena.ReadAt(o.body, p, 0)
	return p, nil
}

func (m *memory) openPair(e entry) (pair, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.large[e.root]
	if !ok {
		return pair{}, damage("missing")
	}
	return p.open(), nil
}

func (m *memory) put(_ context.Context, root b3.Root, p []byte, _ bool, _ func()) (bool, error) {
	body, err := m.arena.Alloc(len(p))
	if err != nil {
		return false, memoryFull(m.arena, len(p))
	}
	m.arena.WriteAt(body, p, 0)
	return m.insert(root, memObject{size: int64(len(p)), body: body}, ramPair{}), nil
}

// insert makes o visible in place of a corrupt one, or gives it back when a
// whole one is there. Of a large object p is the bytes, of which o gets a share.
func (m *memory) insert(root b3.Root, o memObject, p ramPair) (isNew bool) {
	o.added = m.clock.stamp()
	m.mu.Lock()
	part := &m.objects[root[0]]
	if *part == nil {
		*part = map[b3.Root]memObject{}
	}
	old, ok := (*part)[root]
	if ok && !old.corrupt {
		m.mu.Unlock()
		m.arena.Free(o.body)
		return false
	}
	oldPair := m.large[root]
	if ok {
		m.count.replace([]entry{old.entry(root)}, []entry{o.entry(root)})
	} else {
		m.count.add(o.entry(root))
	}
	(*part)[root] = o
	if !small(o.size) {
		p.retain()
		m.large[root] = p
	}
	m.mu.Unlock()
	m.free(old.body, oldPair)
	return true
}

// free gives back what an object held that is not visible any more. mu is not
// held: zeroing takes its time.
func (m *memory) free(body arena.Extent, p ramPair) {
	m.arena.Free(body)
	if p.data != nil {
		p.release()
	}
}

func (m *memory) stage(root b3.Root) (*staging, error) {
	return &staging{root: root, pair: newRAMPair(m.arena).pair()}, nil
}

func (m *memory) publish(_ context.Context, root b3.Root, size int64, st *staging, _ bool, done func()) (bool, error) {
	defer done()
	m.unnote(st)
	return m.insert(root, memObject{size: size}, ramPairOf(st.pair)), nil
}

// discard forgets what was noted; the bytes go when the files are closed.
func (m *memory) discard(st *staging) error {
	m.unnote(st)
	return nil
}

func (m *memory) flush(context.Context) error { return nil }

func (m *memory) removeAll(_ context.Context, es []entry) error {
	type held struct {
		body arena.Extent
		pair ramPair
	}
	gone := make([]held, 0, len(es))
	m.mu.Lock()
	for _, e := range es {
		o, ok := m.objects[e.root[0]][e.root]
		if !ok || !o.entry(e.root).sameAs(e) {
			continue
		}
		gone = append(gone, held{o.body, m.large[e.root]})
		delete(m.objects[e.root[0]], e.root)
		delete(m.large, e.root)
		m.count.sub(o.entry(e.root))
	}
	m.mu.Unlock()
	for _, b := range gone {
		m.free(b.body, b.pair)
	}
	return nil
}

func (m *memory) touch(used map[b3.Root]second) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for root, at := range used {
		if o, ok := m.objects[root[0]][root]; ok && at > o.used {
			o.used = at
			m.objects[root[0]][root] = o
		}
	}
	return nil
}

func (m *memory) usedAt(e entry) (second, error) {
	o, _ := m.lookup(e.root)
	return max(o.used, e.added), nil
}

func (m *memory) mark(e entry, corrupt bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[e.root[0]][e.root]
	if !ok || o.corrupt == corrupt {
		return nil
	}
	old := o.entry(e.root)
	o.corrupt = corrupt
	m.count.replace([]entry{old}, []entry{o.entry(e.root)})
	m.objects[e.root[0]][e.root] = o
	return nil
}

func (m *memory) setPin(p Pin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pinned[p.Root] == nil {
		m.pinned[p.Root] = map[string]Pin{}
	}
	m.pinned[p.Root][p.Label] = p
	return nil
}

func (m *memory) dropPin(root b3.Root, label string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.pinned[root][label]
	delete(m.pinned[root], label)
	if len(m.pinned[root]) == 0 {
		delete(m.pinned, root)
	}
	return ok, nil
}

func (m *memory) pins(root b3.Root, label string, page []Pin) ([]Pin, error) {
	from := Pin{Root: root, Label: label}
	var found []Pin
	m.mu.RLock()
	for _, labels := range m.pinned {
		for _, p := range labels {
			if comparePins(p, from) >= 0 {
				found = append(found, p)
			}
		}
	}
	m.mu.RUnlock()
	slices.SortFunc(found, comparePins)
	return append(page, found[:min(len(found), cap(page)-len(page))]...), nil
}

func comparePins(a, b Pin) int {
	return cmp.Or(compareRoots(a.Root, b.Root), cmp.Compare(a.Label, b.Label))
}

func (m *memory) totals() *totals { return &m.count }

func (m *memory) usage() Usage {
	return Usage{LargeBytes: m.count.large.Load(), OutboardBytes: m.count.outboards.Load()}
}

func (m *memory) failure() error { return nil }

func (m *memory) away() error { return nil }

func (m *memory) refused() <-chan error { return nil }
