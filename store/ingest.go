package store

import (
	"context"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/partial"
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

// IngestApart is Ingest for an object of which another ingest runs; see
// [partial.Table.IngestApart].
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
	return in.s.partialObject(v), nil
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

// OpenPartial opens a partial object, which the caller closes. It returns
// not_found if no part is stored. Every read verifies the groups again. The
// object sees groups that arrive later; [Object.Covers] reports which bytes can
// be read. Reading another group returns not_found.
func (s *Store) OpenPartial(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	v, err := s.partials.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	return s.partialObject(v), nil
}

func (s *Store) partialObject(v *partial.View) *Object {
	o := s.newObject(meta.Entry{Root: v.Root(), Size: v.Size()}, v.Source(), nil)
	o.part = v
	return o
}

// damagedIfWhole handles err, which says that bytes of a partial object are
// damaged. If root has become whole since it was opened, the whole object is the
// damaged one.
func (s *Store) damagedIfWhole(root b3.Root, err error) error {
	if s.admission.Enter() != nil {
		return err
	}
	defer s.admission.Leave()
	e, ok, failure := s.find(root)
	if failure != nil || !ok {
		return err
	}
	return s.damaged(e, err)
}
