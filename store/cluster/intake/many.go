package intake

import (
	"context"
	"errors"
	"slices"

	"allium/protocols/b3"
	"allium/protocols/object"
	"allium/store"
	"allium/store/cluster/wire"
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
func (in *intake) Commit(ctx context.Context, done []int) (errs []error, replies [][]byte) {
	if in.outcome = in.deps.Store.Flush(ctx); in.outcome != nil {
		return slices.Repeat([]error{in.outcome}, len(done)), nil
	}
	errs = in.setPins(ctx, done)
	in.outcome = errors.Join(errs...)
	return errs, in.told(ctx, done, errs)
}

// told takes over what the member says of objects, by their numbers, that are stored and pinned now, and returns the
// reply for each: none for one with an error.
func (in *intake) told(ctx context.Context, done []int, errs []error) [][]byte {
	if in.about == nil {
		return nil
	}
	var copies []wire.Copy
	var at []int // of each in done
	for n, i := range done {
		if errs[n] == nil {
			copies, at = append(copies, in.about[i]), append(at, n)
		}
	}
	replies := make([][]byte, len(done))
	for n, reply := range in.deps.Copies(ctx, in.offer.From.RemotePeer(), copies) {
		replies[at[n]] = reply
	}
	return replies
}
