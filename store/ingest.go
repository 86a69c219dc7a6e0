package store

import (
	"context"

	"allium/protocols/b3"
	"allium/store/arriving/partial"
)

// Ingest is a download of an object whose address is known; see [partial.Ingest].
type Ingest struct {
	*partial.Ingest
	s *Store
}

// Ingest begins the download of root, which is claimed to have size bytes, or
// resumes one that was suspended or interrupted; see [partial.Table.Ingest].
func (s *Store) Ingest(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	in, err := s.partials.Ingest(ctx, root, size)
	if err != nil {
		return nil, err
	}
	return &Ingest{in, s}, nil
}

// IngestApart is Ingest for an object that has another ingest under way; see [partial.Table.IngestApart].
func (s *Store) IngestApart(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	in, err := s.partials.IngestApart(ctx, root, size)
	if err != nil {
		return nil, err
	}
	return &Ingest{in, s}, nil
}

// Open returns the object with the groups that have arrived; see
// [partial.Ingest.Open].
func (in *Ingest) Open() (*Object, error) {
	v, err := in.Ingest.Open()
	if err != nil {
		return nil, err
	}
	return in.s.opener.Partial(v), nil
}

// Commit makes the object visible and durable. A deferred commit leaves that to
// the next Flush. See [partial.Ingest.Commit].
func (in *Ingest) Commit(ctx context.Context, deferred bool) (Info, error) {
	isNew, err := in.Ingest.Commit(ctx, deferred)
	if err != nil {
		return Info{}, err
	}
	size, _ := in.Size()
	return Info{Root: in.Root(), Size: size, New: isNew}, nil
}
