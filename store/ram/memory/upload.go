package memory

import (
	"allium/store/meta"
)

// The memory backend keeps a reference to the bytes of each upload. The Store keeps
// their records.

// Uploads implements the backend of a store.
func (m *Backend) Uploads() ([]meta.Upload, error) { return nil, nil }

// OpenUpload implements the backend of a store.
func (m *Backend) OpenUpload(rec meta.Upload, _ int64) (*meta.Staging, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.incoming[rec.ID]
	if !ok {
		p = newRAMPair(m.arena) // its first reference is that of the open files
		p.retain()
		m.incoming[rec.ID] = p
		return &meta.Staging{Owned: true, Pair: p.pair()}, nil
	}
	return &meta.Staging{Owned: true, Pair: p.open()}, nil
}

// NoteUpload implements the backend of a store.
func (m *Backend) NoteUpload(rec meta.Upload, _ *meta.Staging) error {
	if rec.Done {
		return m.DropUpload(rec.ID)
	}
	return nil
}

// DropUpload implements the backend of a store.
func (m *Backend) DropUpload(id meta.UploadID) error {
	m.mu.Lock()
	p, ok := m.incoming[id]
	delete(m.incoming, id)
	m.mu.Unlock()
	if ok {
		p.release() // without mu, because zeroing is slow
	}
	return nil
}
