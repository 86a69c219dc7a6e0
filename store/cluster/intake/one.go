package intake

import (
	"context"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
)

// Ingest implements object.Intake.
func (in *intake) Ingest(ctx context.Context) (object.Ingest, error) {
	root, size := in.objs[0], in.offer.Sizes[0]
	if err := in.deps.Filter.Object(root); err != nil {
		return nil, in.refused(err)
	}
	if err := in.begin(ctx); err != nil {
		return nil, err
	}
	dst, err := in.ingest(ctx, root, size)
	if err != nil || dst == nil {
		in.outcome = err
		return nil, err
	}
	return &ingest{Ingest: dst, in: in}, nil
}

// ingest begins an ingest of the store. It returns nil if the object is stored.
func (in *intake) ingest(ctx context.Context, root b3.Root, size int64) (*store.Ingest, error) {
	has, err := in.deps.Store.Touch(ctx, in.objs)
	if err != nil {
		return nil, err
	}
	if has[0] == b3.Complete {
		switch ok, err := in.isWhole(ctx, 0); {
		case err != nil:
			return nil, err
		case ok:
			return nil, in.setPins(ctx, []int{0})[0]
		}
	}
	if err := in.charges[0].Fits(size); err != nil {
		return nil, err
	}
	dst, err := in.deps.Store.Ingest(ctx, root, size)
	switch status.Of(err) {
	case status.Conflict:
		return nil, busy(root)
	case status.Upstream: // the size is false
		return nil, status.Errorf(status.BadRequest, "cannot store the object: %w", err)
	}
	return dst, err
}

// ingest is the only object of a put while it arrives.
type ingest struct {
	*store.Ingest
	in      *intake
	charged bool // whether the quota counts the object
}

// Write implements object.Ingest. It counts the object against the quota as soon as its
// size is proved.
func (i *ingest) Write(item b3.Proved) error {
	if item.SizeProved() && !i.charged {
		if err := i.in.charges[0].Take(meta.Count{Objects: 1, Bytes: item.Size()}); err != nil {
			i.in.outcome = err
			return err
		}
		i.charged = true
	}
	err := i.Ingest.Write(item)
	if err != nil {
		i.in.outcome = err
	}
	return err
}

// Commit implements object.Ingest.
func (i *ingest) Commit(ctx context.Context) error {
	_, err := i.Ingest.Commit(ctx, false)
	if err == nil {
		err = i.in.setPins(ctx, []int{0})[0]
	}
	i.in.outcome = err
	return err
}
