package memory

import (
	"cmp"
	"slices"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// SetPins implements the backend of a store.
func (m *Backend) SetPins(pins []meta.Pin) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range pins {
		if m.pinned[p.Root] == nil {
			m.pinned[p.Root] = map[string]meta.Pin{}
		}
		if old, ok := m.pinned[p.Root][p.Label]; ok {
			p = p.Replace(old)
		}
		m.pinned[p.Root][p.Label] = p
	}
	return nil
}

// SetTarget implements the backend of a store.
func (m *Backend) SetTarget(root b3.Root, label string, t meta.Target) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.pinned[root][label]
	if !ok || p.Released || !t.Replaces(p.Target) {
		return false, nil
	}
	p.Target = t
	m.pinned[root][label] = p
	return true, nil
}

// DropPin implements the backend of a store.
func (m *Backend) DropPin(root b3.Root, label string) (bool, error) {
	return m.dropPin(root, label, false), nil
}

// ForgetPin implements the backend of a store.
func (m *Backend) ForgetPin(root b3.Root, label string) (bool, error) {
	return m.dropPin(root, label, true), nil
}

func (m *Backend) dropPin(root b3.Root, label string, released bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.pinned[root][label]
	if !ok || old.Released != released {
		return false
	}
	if !released && old.Target.Seq > 0 {
		m.pinned[root][label] = old.Release(uint64(time.Now().UnixMilli()))
		return true
	}
	delete(m.pinned[root], label)
	if len(m.pinned[root]) == 0 {
		delete(m.pinned, root)
	}
	return true
}

// Pin implements the backend of a store.
func (m *Backend) Pin(root b3.Root, label string) (meta.Pin, bool, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.pinned[root][label]
	return p, ok, nil
}

// Pins implements the backend of a store.
func (m *Backend) Pins(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error) {
	return m.pins(root, label, false, page)
}

// Released implements the backend of a store.
func (m *Backend) Released(root b3.Root, label string, page []meta.Pin) ([]meta.Pin, error) {
	return m.pins(root, label, true, page)
}

func (m *Backend) pins(root b3.Root, label string, released bool, page []meta.Pin) ([]meta.Pin, error) {
	from := meta.Pin{Root: root, Label: label}
	var found []meta.Pin
	m.mu.RLock()
	for _, labels := range m.pinned {
		for _, p := range labels {
			if p.Released == released && comparePins(p, from) >= 0 {
				found = append(found, p)
			}
		}
	}
	m.mu.RUnlock()
	slices.SortFunc(found, comparePins)
	return append(page, found[:min(len(found), cap(page)-len(page))]...), nil
}

func comparePins(a, b meta.Pin) int {
	return cmp.Or(meta.CompareRoots(a.Root, b.Root), cmp.Compare(a.Label, b.Label))
}
