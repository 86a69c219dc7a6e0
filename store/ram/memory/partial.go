package memory

import (
	"maps"
	"slices"

	"allium/protocols/b3"
	"allium/store/meta"
)

// memPart is the saved state of a partial object. It has a reference to the bytes.
type memPart struct {
	pair ramPair
	rec  meta.Partial
	bits map[int64]meta.Bits
}

// Resume implements the backend of a store.
func (m *Backend) Resume(root b3.Root) (*meta.Staging, meta.Partial, []meta.BitsPage, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	part := m.parts[root]
	if part == nil {
		return nil, meta.Partial{}, nil, nil
	}
	pages := make([]meta.BitsPage, 0, len(part.bits))
	for n, bits := range part.bits {
		pages = append(pages, meta.BitsPage{Number: n, Bits: bits})
	}
	return &meta.Staging{Root: root, Kept: true, Pair: part.pair.open()}, part.rec, pages, nil
}

// Save implements the backend of a store.
func (m *Backend) Save(st *meta.Staging, rec meta.Partial, pages []meta.BitsPage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	part := m.parts[rec.Root]
	if part == nil {
		part = &memPart{pair: ramPairOf(st.Pair), bits: map[int64]meta.Bits{}}
		part.pair.retain()
		m.parts[rec.Root] = part
	}
	part.rec = rec
	for _, page := range pages {
		part.bits[page.Number] = page.Bits
	}
	st.Kept = true
	return nil
}

// Partial implements the backend of a store.
func (m *Backend) Partial(root b3.Root) (meta.Partial, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if part := m.parts[root]; part != nil {
		return part.rec, true, nil
	}
	return meta.Partial{}, false, nil
}

// Partials implements the backend of a store.
func (m *Backend) Partials(root b3.Root, page []meta.Partial) ([]meta.Partial, error) {
	m.mu.RLock()
	roots := slices.SortedFunc(maps.Keys(m.parts), meta.CompareRoots)
	for _, r := range roots {
		if meta.CompareRoots(r, root) >= 0 && len(page) < cap(page) {
			page = append(page, m.parts[r].rec)
		}
	}
	m.mu.RUnlock()
	return page, nil
}

// DropPartial implements the backend of a store.
func (m *Backend) DropPartial(root b3.Root) error {
	m.mu.Lock()
	part := m.parts[root]
	delete(m.parts, root)
	m.mu.Unlock()
	if part != nil {
		part.pair.release() // without mu, because zeroing is slow
	}
	return nil
}

// dropSaved drops the saved state of st, which is published or discarded.
func (m *Backend) dropSaved(st *meta.Staging) {
	if st.Kept {
		_ = m.DropPartial(st.Root) // always nil
		st.Kept = false
	}
}
