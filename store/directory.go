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

// node reads a directory, verified. It is nil when root is not here, or no directory;
// meta.ErrDamagedDirectory when its bytes are wrong and might have been one. Reading
// it so is not a use.
func (s *Store) node(ctx context.Context, root b3.Root) (*manifest.Node, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
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
		return nil, nodeError(err)
	}
	defer o.Close()
	p := make([]byte, e.Size)
	if _, err := o.Reader().ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		if status.Of(err) == status.Corrupt {
			err = s.damaged(e, err)
		}
		return nil, nodeError(err)
	}
	n, err := manifest.Decode(p)
	if err != nil {
		return nil, nil // a file
	}
	return n, nil
}

func nodeError(err error) error {
	if status.Of(err) == status.Corrupt {
		return errors.Join(meta.ErrDamagedDirectory, err)
	}
	return err
}
