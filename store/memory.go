package store

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"allium/protocols/b3"
)

// memory is the backend that keeps everything in RAM, under a hard cap. Nothing
// waits for a disk, so deferred objects are visible at once after the put and
// flush has nothing to do.
type memory struct {
	ram   *ram
	count totals

	mu      sync.RWMutex
	objects [256]map[b3.Root]memObject // by first byte, so that a listing sorts one part at a time
	pinned  map[b3.Root]map[string]Pin
}

type memObject struct {
	e     entry
	used  minute
	small []byte
	large pair
}

func newMemory(limit int64) *memory {
	return &memory{ram: &ram{limit: limit}, pinned: map[b3.Root]map[string]Pin{}}
}

func (m *memory) open() error { return nil }

func (m *memory) serve(ctx context.Context) { <-ctx.Done() }

func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.objects = [256]map[b3.Root]memObject{}
	clear(m.pinned)
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
	return o.e, ok, nil
}

func (m *memory) entries(root b3.Root, page []entry) ([]entry, error) {
	for part := int(root[0]); part < len(m.objects); part++ {
		var found []entry
		m.mu.RLock()
		for r, o := range m.objects[part] {
			if compareRoots(r, root) >= 0 {
				o.e.used = max(o.used, o.e.added)
				found = append(found, o.e)
			}
		}
		m.mu.RUnlock()
		slices.SortFunc(found, func(a, b entry) int { return compareRoots(a.root, b.root) })
		page = append(page, found[:min(len(found), cap(page)-len(page))]...)
		if len(page) == cap(page) {
			break
		}
	}
	return page, nil
}

func compareRoots(a, b b3.Root) int { return slices.Compare(a[:], b[:]) }

func (m *memory) read(e entry) ([]byte, error) {
	o, ok := m.lookup(e.root)
	if !ok {
		return nil, damage("missing")
	}
	return o.small, nil
}

func (m *memory) openPair(e entry) (pair, error) {
	o, ok := m.lookup(e.root)
	if !ok {
		return pair{}, damage("missing")
	}
	return o.large, nil
}

func (m *memory) put(_ context.Context, root b3.Root, p []byte, _ bool) (bool, error) {
	n := int64(len(p))
	if err := m.ram.take(n); err != nil {
		return false, err
	}
	isNew := m.insert(memObject{e: entry{root: root, size: n}, small: slices.Clone(p)})
	return isNew, nil
}

// insert makes o visible in place of a corrupt one, or gives it back when a
// whole one is there.
func (m *memory) insert(o memObject) (isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	part := &m.objects[o.e.root[0]]
	if *part == nil {
		*part = map[b3.Root]memObject{}
	}
	old, ok := (*part)[o.e.root]
	if ok && !old.e.corrupt {
		m.free(o)
		return false
	}
	if ok {
		m.count.sub(old.e)
		m.free(old)
	}
	o.e.added = minuteOf(time.Now())
	m.count.add(o.e)
	(*part)[o.e.root] = o
	return true
}

// free gives o's bytes back to the cap. Readers keep the memory until they are
// done.
func (m *memory) free(o memObject) {
	if small(o.e.size) {
		m.ram.give(o.e.size)
		return
	}
	m.ram.give(o.large.data.(*ramFile).size() + o.large.outboard.(*ramFile).size())
}

func (m *memory) stage(b3.Root) (*staging, error) {
	return &staging{pair: pair{data: &ramFile{ram: m.ram}, outboard: &ramFile{ram: m.ram}}}, nil
}

func (m *memory) publish(_ context.Context, root b3.Root, size int64, st *staging, _ bool, done func()) (bool, error) {
	defer done()
	return m.insert(memObject{e: entry{root: root, size: size}, large: st.pair}), nil
}

func (m *memory) discard(st *staging) error {
	m.ram.give(st.data.(*ramFile).size() + st.outboard.(*ramFile).size())
	return nil
}

func (m *memory) flush(context.Context) error { return nil }

func (m *memory) removeAll(_ context.Context, es []entry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range es {
		o, ok := m.objects[e.root[0]][e.root]
		if !ok || !o.e.sameAs(e) {
			continue
		}
		delete(m.objects[e.root[0]], e.root)
		m.count.sub(o.e)
		m.free(o)
	}
	return nil
}

func (m *memory) touch(used map[b3.Root]minute) error {
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

func (m *memory) usedAt(e entry) (minute, error) {
	o, _ := m.lookup(e.root)
	return max(o.used, e.added), nil
}

func (m *memory) mark(e entry, corrupt bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[e.root[0]][e.root]
	if !ok || o.e.corrupt == corrupt {
		return nil
	}
	m.count.sub(o.e)
	o.e.corrupt = corrupt
	m.count.add(o.e)
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

func (m *memory) failure() error { return nil }
