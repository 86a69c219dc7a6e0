package store

import (
	"maps"
	"slices"

	"allium/protocols/b3"
)

// memPart is a partial object of the memory backend, as save noted it. It has a
// share of the bytes.
type memPart struct {
	pair ramPair
	rec  partialRecord
	bits map[int64]bitPage
}

func (m *memory) resume(root b3.Root) (*staging, partialRecord, []partialPage, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	part := m.parts[root]
	if part == nil {
		return nil, partialRecord{}, nil, nil
	}
	pages := make([]partialPage, 0, len(part.bits))
	for n, bits := range part.bits {
		pages = append(pages, partialPage{n, bits})
	}
	return &staging{root: root, kept: true, pair: part.pair.open()}, part.rec, pages, nil
}

func (m *memory) save(st *staging, rec partialRecord, pages []partialPage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	part := m.parts[rec.root]
	if part == nil {
		part = &memPart{pair: ramPairOf(st.pair), bits: map[int64]bitPage{}}
		part.pair.retain()
		m.parts[rec.root] = part
	}
	part.rec = rec
	for _, page := range pages {
		part.bits[page.n] = page.bits
	}
	st.kept = true
	return nil
}

func (m *memory) partial(root b3.Root) (partialRecord, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if part := m.parts[root]; part != nil {
		return part.rec, true, nil
	}
	return partialRecord{}, false, nil
}

func (m *memory) partials(root b3.Root, page []partialRecord) ([]partialRecord, error) {
	m.mu.RLock()
	roots := slices.SortedFunc(maps.Keys(m.parts), compareRoots)
	for _, r := range roots {
		if compareRoots(r, root) >= 0 && len(page) < cap(page) {
			page = append(page, m.parts[r].rec)
		}
	}
	m.mu.RUnlock()
	return page, nil
}

func (m *memory) dropPartial(root b3.Root) error {
	m.mu.Lock()
	part := m.parts[root]
	delete(m.parts, root)
	m.mu.Unlock()
	if part != nil {
		part.pair.release() // zeroing takes its time
	}
	return nil
}

// unnote forgets what save noted of st, which is published or discarded.
func (m *memory) unnote(st *staging) {
	if st.kept {
		_ = m.dropPartial(st.root) // always nil
		st.kept = false
	}
}
