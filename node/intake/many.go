package intake

import (
	"context"

	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/protocols/status"
	"allium/store"
)

// pinsAtOnce is how many pins of one put are set at the same time. The store makes those
// durable together.
const pinsAtOnce = 32

// Wishes implements object.Intake.
func (in *intake) Wishes(ctx context.Context) ([]object.Wish, error) {
	if err := in.begin(ctx); err != nil {
		return nil, err
	}
	wishes, err := in.wishes(ctx)
	if err != nil {
		in.outcome = err
	}
	return wishes, err
}

func (in *intake) wishes(ctx context.Context) ([]object.Wish, error) {
	has, err := in.deps.Store.Touch(ctx, in.objs)
	if err != nil {
		return nil, err
	}
	wishes := make([]object.Wish, len(in.objs))
	var group errgroup.Group
	group.SetLimit(pinsAtOnce)
	wanted := false
	for i, root := range in.objs {
		switch {
		case in.deps.Denied(root) != nil:
			wishes[i] = object.Refused
		case has[i] != b3.Complete:
			wanted = true
		default:
			group.Go(func() error {
				ok, err := in.present(ctx, i)
				switch {
				case status.Of(err) == status.Quota:
					wishes[i] = object.Refused
					return nil
				case ok:
					wishes[i] = object.Present
				}
				return err
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if !wanted {
		in.outcome = nil
	}
	return wishes, nil
}

// Take implements object.Intake.
func (in *intake) Take(ctx context.Context, i int, group b3.Proved) error {
	_, err := in.deps.Store.PutBytes(ctx, group.Data(), store.PutOptions{
		Expect: in.objs[i], Deferred: true, Charge: in.charges[i], Size: in.sizes[i],
	})
	return err
}

// Commit implements object.Intake.
func (in *intake) Commit(ctx context.Context, done []int) []error {
	errs := make([]error, len(done))
	flushed := in.deps.Store.Flush(ctx)
	in.outcome = flushed
	var group errgroup.Group
	group.SetLimit(pinsAtOnce)
	for n, i := range done {
		if errs[n] = flushed; flushed != nil {
			continue
		}
		group.Go(func() error {
			errs[n] = in.setPin(ctx, i)
			return errs[n]
		})
	}
	if err := group.Wait(); err != nil {
		in.outcome = err
	}
	return errs
}
