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

// Ingest begins the download of root, of which it is claimed that it has size bytes,
// or goes on with one that was suspended or cut off; see [partial.Table.Ingest].
func (s *Store) Ingest(ctx context.Context, root b3.Root, size int64) (*Ingest, error) {
	in, err := s.partials.Ingest(ctx, root, size)
	if err != nil {
		return nil, err
	}
	return &Ingest{in, s}, nil
}

// Open returns the object as far as it has arrived; see [partial.Ingest.Open].
func (in *Ingest) Open() (*Object, error) {
	v, err := in.Ingest.Open()
	if err != nil {
		return nil, err
	}
	return in.s.partOf(v), nil
}

// Commit makes the object visible, and durable unless deferred; see
// [partial.Ingest.Commit].
func (in *Ingest) Commit(ctx context.Context, deferred bool) (Info, error) {
	isNew, err := in.Ingest.Commit(ctx, deferred)
	if err != nil {
		return Info{}, err
	}
	size, _ := in.Size()
	return Info{Root: in.Root(), Size: size, New: isNew}, nil
}

// OpenPartial opens what is here of an object that is not whole, proved again on
// every read: not_found when there is nothing. It sees what arrives meanwhile;
// Covers says what can be read, and a group that is not here is not_found. The
// caller closes it.
func (s *Store) OpenPartial(ctx context.Context, root b3.Root) (*Object, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	v, err := s.partials.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	return s.partOf(v), nil
}

func (s *Store) partOf(v *partial.View) *Object {
	o := s.newObject(meta.Entry{Root: v.Root(), Size: v.Size()}, v.Source(), nil)
	o.part = v
	return o
}

// becameWhole is for a reader that opened root while it arrived: what is damaged is
// the object now, if it is there.
func (s *Store) becameWhole(root b3.Root, err error) error {
	if s.enter() != nil {
		return err
	}
	defer s.leave()
	e, ok, failure := s.find(root)
	if failure != nil || !ok {
		return err
	}
	return s.damaged(e, err)
}
