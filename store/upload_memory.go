package store

// The memory backend keeps a share of the bytes of an upload; what is noted of
// it is the Store's to remember.

func (m *memory) uploads() ([]uploadRecord, error) { return nil, nil }

func (m *memory) openUpload(rec uploadRecord, _ int64) (*staging, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.incoming[rec.id]
	if !ok {
		p = newRAMPair(m.arena) // one share is its file's
		p.retain()
		m.incoming[rec.id] = p
		return &staging{owned: true, pair: p.pair()}, nil
	}
	return &staging{owned: true, pair: p.open()}, nil
}

func (m *memory) noteUpload(rec uploadRecord, _ *staging) error {
	if rec.done {
		return m.dropUpload(rec.id)
	}
	return nil
}

func (m *memory) dropUpload(id uploadID) error {
	m.mu.Lock()
	p, ok := m.incoming[id]
	delete(m.incoming, id)
	m.mu.Unlock()
	if ok {
		p.release() // zeroing takes its time
	}
	return nil
}
