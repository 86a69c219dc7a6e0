package memory

import (
	"context"
	"slices"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/disk/damage"
	"allium/store/disk/fsys"
	"allium/store/meta"
	"allium/store/ram/arena"
)

// Backend keeps objects in RAM. It is safe for concurrent use between Open and Close.
//
// A reader of a small object gets a copy. A large object that is open counts towards
// the limit until it is closed.
type Backend struct {
	limit int64 // bytes
	clock *meta.Clock
	arena *arena.Arena // nil before Open
	count meta.Totals

	mu      sync.RWMutex               // lock: metadata
	objects [256]map[b3.Root]memObject // by first byte, so that a listing sorts one map at a time
	large   map[b3.Root]ramPair        // the bytes of large objects
	pinned  map[b3.Root]map[string]meta.Pin
	parts   map[b3.Root]*memPart

	incoming map[meta.UploadID]ramPair // the bytes of uploads
}

// memObject and its key have no pointers, so that Go's garbage collector does not scan
// the maps.
type memObject struct {
	size        int64
	body        arena.Extent // the bytes of a small object
	added, used meta.Second
	corrupt     bool
}

func (o memObject) entry(root b3.Root) meta.Entry {
	return meta.Entry{Root: root, Size: o.size, Corrupt: o.corrupt, Added: o.added, Used: max(o.used, o.added)}
}

// New returns an empty backend of at most limit bytes.
func New(limit int64, clock *meta.Clock) *Backend {
	return &Backend{
		limit: limit, clock: clock,
		large:    map[b3.Root]ramPair{},
		pinned:   map[b3.Root]map[string]meta.Pin{},
		parts:    map[b3.Root]*memPart{},
		incoming: map[meta.UploadID]ramPair{},
	}
}

// Open implements the backend of a store.
func (m *Backend) Open(context.Context) (err error) {
	if m.arena, err = arena.New(m.limit); err != nil {
		return status.Errorf(status.NoSpace, "store.memory_bytes: %w; set it lower", err)
	}
	return nil
}

// Arena returns the arena that has the bytes. It is nil before Open.
func (m *Backend) Arena() *arena.Arena { return m.arena }

// ReadOnly implements the backend of a store: RAM can always be written.
func (m *Backend) ReadOnly() bool { return false }

// Shed implements the backend of a store. There are no files.
func (m *Backend) Shed() int { return 0 }

// Descriptors implements the backend of a store. There are no files.
func (m *Backend) Descriptors() (none fsys.Descriptors) { return none }

// CheckLog implements the backend of a store. There is no log.
func (m *Backend) CheckLog(context.Context, func(context.Context) error) (segments int, err error) {
	return 0, nil
}

// Serve implements the backend of a store.
func (m *Backend) Serve(ctx context.Context) { <-ctx.Done() }

// Close drops everything. The memory is freed when the last reader has closed.
func (m *Backend) Close() error {
	m.mu.Lock()
	m.objects = [256]map[b3.Root]memObject{}
	m.large, m.pinned, m.parts, m.incoming = nil, nil, nil, nil
	m.mu.Unlock()
	m.arena.Release()
	return nil
}

func (m *Backend) lookup(root b3.Root) (memObject, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[root[0]][root]
	return o, ok
}

// Get implements the backend of a store.
func (m *Backend) Get(root b3.Root) (meta.Entry, bool, error) {
	o, ok := m.lookup(root)
	return o.entry(root), ok, nil
}

// GetAll implements the backend of a store.
func (m *Backend) GetAll(roots []b3.Root) ([]meta.Entry, error) {
	es := make([]meta.Entry, len(roots))
	for i, root := range roots {
		if o, ok := m.lookup(root); ok {
			es[i] = o.entry(root)
		}
	}
	return es, nil
}

// Entries implements the backend of a store.
func (m *Backend) Entries(root b3.Root, page []meta.Entry) ([]meta.Entry, error) {
	for part := int(root[0]); part < len(m.objects) && len(page) < cap(page); part++ {
		page = append(page, m.first(part, root, cap(page)-len(page))...)
	}
	return page, nil
}

// first returns the first n entries of one map from root on, in order. It keeps at
// most 2n entries at a time.
func (m *Backend) first(part int, root b3.Root, n int) []meta.Entry {
	found := make([]meta.Entry, 0, 2*n)
	cut := func() {
		slices.SortFunc(found, func(a, b meta.Entry) int { return meta.CompareRoots(a.Root, b.Root) })
		found = found[:min(n, len(found))]
	}
	var last b3.Root // later roots cannot be among the first n
	m.mu.RLock()
	defer m.mu.RUnlock()
	for r, o := range m.objects[part] {
		if meta.CompareRoots(r, root) < 0 || !last.IsZero() && meta.CompareRoots(r, last) > 0 {
			continue
		}
		if found = append(found, o.entry(r)); len(found) == cap(found) {
			cut()
			last = found[n-1].Root
		}
	}
	cut()
	return found
}

// Read implements the backend of a store.
func (m *Backend) Read(e meta.Entry) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	o, ok := m.objects[e.Root[0]][e.Root]
	if !ok {
		return nil, meta.Defect("missing")
	}
	p := make([]byte, o.body.Len())
	m.arena.ReadAt(o.body, p, 0)
	return p, nil
}

// OpenPair implements the backend of a store.
func (m *Backend) OpenPair(e meta.Entry) (meta.Pair, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.large[e.Root]
	if !ok {
		return meta.Pair{}, meta.Defect("missing")
	}
	return p.open(), nil
}

// Put implements the backend of a store.
func (m *Backend) Put(_ context.Context, root b3.Root, p []byte, _ bool, _ func()) (bool, error) {
	body, err := m.arena.Alloc(len(p))
	if err != nil {
		return false, memoryFull(m.arena, len(p))
	}
	m.arena.WriteAt(body, p, 0)
	return m.insert(root, memObject{size: int64(len(p)), body: body}, ramPair{}), nil
}

// insert makes o visible, in place of a corrupt object. If a whole one is already
// visible, it frees o and returns false. p is the bytes of a large object; insert adds
// a reference to them.
func (m *Backend) insert(root b3.Root, o memObject, p ramPair) (isNew bool) {
	o.added = m.clock.Stamp()
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
		m.count.Replace([]meta.Entry{old.entry(root)}, []meta.Entry{o.entry(root)})
	} else {
		m.count.Add(o.entry(root))
	}
	(*part)[root] = o
	if !meta.Small(o.size) {
		p.retain()
		m.large[root] = p
	}
	m.mu.Unlock()
	m.free(old.body, oldPair)
	return true
}

// free frees the bytes of an object that is no longer visible. The caller does not
// hold mu, because zeroing is slow.
func (m *Backend) free(body arena.Extent, p ramPair) {
	m.arena.Free(body)
	if p.data != nil {
		p.release()
	}
}

// File implements the backend of a store.
func (m *Backend) File(meta.Entry) (path string, ok bool) { return "", false }

// Place implements the backend of a store.
func (m *Backend) Place(meta.Entry) (file string, offset int64, inBucket bool) {
	return "RAM", 0, false
}

// MoveFile implements the backend of a store.
func (m *Backend) MoveFile(e meta.Entry, _ func(path string) error) error {
	return meta.NoOwnFile(e.Root)
}

// Stage implements the backend of a store.
func (m *Backend) Stage(root b3.Root) (*meta.Staging, error) {
	return &meta.Staging{Root: root, Pair: newRAMPair(m.arena).pair()}, nil
}

// Publish implements the backend of a store.
func (m *Backend) Publish(
	_ context.Context, root b3.Root, size int64, st *meta.Staging, _ bool, done func(),
) (bool, error) {
	defer done()
	m.dropSaved(st)
	return m.insert(root, memObject{size: size}, ramPairOf(st.Pair)), nil
}

// Discard drops the saved state of st. Its bytes are freed when the files are closed.
func (m *Backend) Discard(st *meta.Staging) error {
	m.dropSaved(st)
	return nil
}

// Flush implements the backend of a store.
func (m *Backend) Flush(context.Context) error { return nil }

// RemoveAll implements the backend of a store.
func (m *Backend) RemoveAll(_ context.Context, es []meta.Entry) error {
	type bytes struct {
		body arena.Extent
		pair ramPair
	}
	removed := make([]bytes, 0, len(es))
	m.mu.Lock()
	for _, e := range es {
		o, ok := m.objects[e.Root[0]][e.Root]
		if !ok || !o.entry(e.Root).SameAs(e) {
			continue
		}
		removed = append(removed, bytes{o.body, m.large[e.Root]})
		delete(m.objects[e.Root[0]], e.Root)
		delete(m.large, e.Root)
		m.count.Sub(o.entry(e.Root))
	}
	m.mu.Unlock()
	for _, b := range removed {
		m.free(b.body, b.pair)
	}
	return nil
}

// Touch implements the backend of a store.
func (m *Backend) Touch(used map[b3.Root]meta.Second, age meta.Second) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for root, at := range used {
		if o, ok := m.objects[root[0]][root]; ok && at >= max(o.used, o.added)+age {
			o.used = at
			m.objects[root[0]][root] = o
		}
	}
	return nil
}

// UsedAt implements the backend of a store.
func (m *Backend) UsedAt(e meta.Entry) (meta.Second, error) {
	o, _ := m.lookup(e.Root)
	return max(o.used, e.Added), nil
}

// Mark implements the backend of a store.
func (m *Backend) Mark(e meta.Entry, corrupt bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.objects[e.Root[0]][e.Root]
	if !ok || o.corrupt == corrupt {
		return nil
	}
	old := o.entry(e.Root)
	o.corrupt = corrupt
	m.count.Replace([]meta.Entry{old}, []meta.Entry{o.entry(e.Root)})
	m.objects[e.Root[0]][e.Root] = o
	return nil
}

// Totals implements the backend of a store.
func (m *Backend) Totals() *meta.Totals { return &m.count }

// Usage implements the backend of a store.
func (m *Backend) Usage() meta.Usage {
	return meta.Usage{LargeBytes: m.count.LargeBytes.Load(), OutboardBytes: m.count.OutboardBytes.Load()}
}

// Failure implements the backend of a store.
func (m *Backend) Failure() error { return nil }

// Away implements the backend of a store.
func (m *Backend) Away() error { return nil }

// Ready implements the backend of a store.
func (m *Backend) Ready() {}

// Refused implements the backend of a store.
func (m *Backend) Refused() <-chan error { return nil }

// Damages implements the backend of a store.
func (m *Backend) Damages() *damage.List { return nil }
