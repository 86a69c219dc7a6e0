package intake

import (
	"context"
	"errors"
	"slices"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/store"
)

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
	var whole []int
	for i, root := range in.objs {
		switch {
		case in.deps.Filter.Object(root) != nil:
			wishes[i] = object.Refused
		case has[i] == b3.Complete:
			whole = append(whole, i)
		}
	}
	if err := in.present(ctx, whole, wishes); err != nil {
		return nil, err
	}
	wanted := slices.Contains(wishes, object.Wanted)
	if !wanted {
		in.outcome = nil
	}
	return wishes, nil
}

// Take implements object.Intake.
func (in *intake) Take(ctx context.Context, i int, group b3.Proved) error {
	_, err := in.deps.Store.PutBytes(ctx, group.Data(), store.PutOptions{
		Expect: in.objs[i], Deferred: true, Charge: in.charges[i], Proved: group,
	})
	return err
}

// Commit implements object.Intake.
func (in *intake) Commit(ctx context.Context, done []int) []error {
	if in.outcome = in.deps.Store.Flush(ctx); in.outcome != nil {
		return slices.Repeat([]error{in.outcome}, len(done))
	}
	errs := in.setPins(ctx, done)
	in.outcome = errors.Join(errs...)
	return errs
}
