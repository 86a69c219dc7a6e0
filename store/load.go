package store

import (
	"context"
	"errors"
	"io"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
)

// load reads a whole object of at most [cache.MaxObject] bytes into RAM and
// verifies it. If compaction moved its record, load updates e.
func (s *Store) load(e *meta.Entry) (*b3.Memory, error) {
	if meta.Small(e.Size) {
		return s.readSmall(e)
	}
	p, err := s.backend.OpenPair(*e)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	data, outboard := make([]byte, e.Size), make([]byte, b3.OutboardSize(e.Size))
	if err := meta.ReadFull(p.Data, data); err != nil {
		return nil, err
	}
	if err := meta.ReadFull(p.Outboard, outboard); err != nil {
		return nil, err
	}
	return s.hash.Memory(e.Root, data, outboard)
}

// maxMoves is how often readSmall looks up a record again that compaction moved.
const maxMoves = 8

// readSmall reads the small object e and verifies it. Compaction may move the
// record after e was looked up, and the old file may be reused. Then readSmall
// looks the record up again and updates e. Only a bad record at its current
// place is damage.
func (s *Store) readSmall(e *meta.Entry) (*b3.Memory, error) {
	for moves := 0; ; moves++ {
		mem, err := s.readSmallAt(*e)
		if err == nil || moves == maxMoves {
			return mem, err
		}
		now, ok, lookupErr := s.backend.Get(e.Root)
		if lookupErr != nil || !ok || now.SamePlace(*e) {
			return nil, err
		}
		*e = now
	}
}

func (s *Store) readSmallAt(e meta.Entry) (*b3.Memory, error) {
	p, err := s.backend.Read(e)
	if err != nil {
		return nil, err
	}
	return s.hash.Memory(e.Root, p, nil)
}

// readDirectory reads and verifies the directory node root. It returns nil when
// root is not stored or is a file. When its bytes are damaged and may have been
// a directory, it returns meta.ErrDamagedDirectory. It does not count as a use.
func (s *Store) readDirectory(ctx context.Context, root b3.Root) (*manifest.Node, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	s.leases.Acquire(root)
	e, ok, err := s.find(root)
	if err != nil || !ok || e.Size > manifest.MaxNode || e.Size < int64(len(manifest.Magic)) {
		s.leases.Release(root)
		return nil, err
	}
	if e.Corrupt {
		s.leases.Release(root)
		return nil, meta.ErrDamagedDirectory
	}
	o, err := s.openEntry(e)
	if err != nil {
		s.leases.Release(root)
		return nil, directoryError(err)
	}
	defer o.Close()
	p := make([]byte, e.Size)
	if _, err := o.Reader().ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		if status.Of(err) == status.Corrupt {
			err = s.damaged(e, err)
		}
		return nil, directoryError(err)
	}
	n, err := manifest.Decode(p)
	if err != nil {
		return nil, nil // a file
	}
	return n, nil
}

func directoryError(err error) error {
	if status.Of(err) == status.Corrupt {
		return errors.Join(meta.ErrDamagedDirectory, err)
	}
	return err
}
