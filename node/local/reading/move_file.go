package reading

import (
	"context"
	"errors"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// mover is a content whose file can be taken out of the store; see [store.Object.MoveOut].
type mover interface {
	filler
	MoveOut(ctx context.Context, move func(path string) error) error
}

// errNotMoved ends a move that the caller declined.
var errNotMoved = errors.New("the caller reads the stream instead")

// fileMover returns the MoveFile of a stream of the file o with the content c, or nil.
func (a *Reader) fileMover(
	ctx context.Context, o api.Object, c b3.Content,
) func(api.ProgressFunc, func(path string) (bool, error)) (bool, error) {
	from, ok := c.(mover)
	if !ok || !a.opt.MovesFiles || o.Size < api.LeastPassed {
		return nil
	}
	return func(report api.ProgressFunc, move func(path string) (bool, error)) (moved bool, err error) {
		// fill proves the groups that were stored before by reading them; the others are proved as they arrive.
		if err := fill(ctx, o, from, onlyProved{}, report); err != nil {
			return false, err
		}
		asked := false
		err = from.MoveOut(ctx, func(path string) error {
			asked = true
			if moved, err = move(path); err == nil && !moved {
				err = errNotMoved
			}
			return err
		})
		out := status.Of(err)
		if errors.Is(err, errNotMoved) || !asked && (out == status.Unsupported || out == status.Conflict) {
			return false, nil
		}
		return moved, err
	}
}

// onlyProved takes groups that were proved, and keeps nothing.
type onlyProved struct{}

// WriteAt implements io.WriterAt.
func (onlyProved) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
