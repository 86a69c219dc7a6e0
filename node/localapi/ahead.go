package localapi

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"allium/gateway/content"
	"allium/gateway/verified"
	"allium/node/objects"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Of files that are read before their turn.
const (
	aheadFiles = verified.Conns // at once
	aheadBytes = 1 << 20        // of one; a longer one is streamed when it is its turn
	aheadCalm  = 64             // that are read at their turn after one was refused for a limit
)

// ahead reads the small files of a directory before their turn, several at once,
// where each would cost a round trip. What comes of it comes in the order of the
// directory, with the error that reading one after the other would have had. At
// most aheadFiles × aheadBytes are held.
//
// Who is refused for a limit has asked for too much at once: the file is asked for
// again at its turn, when nothing else is under way, and so are those that follow.
type ahead struct {
	inTurn
	places *semaphore.Weighted // to read ahead takes one, to open a file at its turn all
	calm   atomic.Int64        // files that are still to be read at their turn
}

func newAhead(opener content.Opener) *ahead {
	return &ahead{inTurn: inTurn{opener}, places: semaphore.NewWeighted(aheadFiles)}
}

// walk implements source: each gets what was read ahead.
func (h *ahead) walk(ctx context.Context, root b3.Root, each func(early) error) error {
	return h.inOrder(ctx, func(ctx context.Context, submit func(func() early) error) error {
		return manifest.Walk(ctx, objects.Manifests(h), root, func(path string, e manifest.Entry) error {
			return submit(func() early {
				r := early{path: path, entry: e}
				if e.Kind == manifest.File && e.Size <= aheadBytes {
					r.held, r.err = h.read(ctx, e.Root, true)
				}
				return r
			})
		})
	}, each)
}

// files implements source: nothing is known of the objects but their addresses.
func (h *ahead) files(ctx context.Context, roots []b3.Root, each func(early) error) error {
	return h.inOrder(ctx, func(ctx context.Context, submit func(func() early) error) error {
		for _, root := range roots {
			err := submit(func() early {
				r := early{entry: manifest.Entry{Root: root}}
				r.held, r.err = h.read(ctx, root, false)
				return r
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, each)
}

func (h *ahead) inOrder(ctx context.Context, produce func(context.Context, func(func() early) error) error, each func(early) error) error {
	var failed error
	err := inOrder(ctx, aheadFiles, produce, func(r early) bool {
		if status.Of(r.err).Retry() == status.RetryAfter {
			h.calm.Store(aheadCalm)
			r.err = nil // asked for again at its turn, which is now
		}
		if failed = r.err; failed == nil {
			failed = each(r)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// openFile opens a file at its turn, while nothing is read ahead, unless it was
// read already.
func (h *ahead) openFile(ctx context.Context, r early) (b3.Content, error) {
	if r.held != nil {
		return r.held, nil
	}
	if err := h.places.Acquire(ctx, aheadFiles); err != nil {
		return nil, err
	}
	defer h.places.Release(aheadFiles)
	return h.Open(ctx, r.entry.Root, content.OpenOptions{Whole: true})
}

// read returns an object of at most aheadBytes, nil for a longer one and when this
// is no time to read ahead. likely says that the object is not longer: then one
// request asks for all of it.
func (h *ahead) read(ctx context.Context, root b3.Root, likely bool) (*heldBytes, error) {
	if err := h.places.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer h.places.Release(1)
	if h.calm.Load() > 0 {
		h.calm.Add(-1)
		return nil, nil
	}
	c, err := h.Open(ctx, root, content.OpenOptions{Whole: likely})
	if err != nil {
		return nil, err
	}
	if c.Size() > aheadBytes {
		return nil, c.Close()
	}
	held := &heldBytes{}
	held.Grow(int(c.Size()))
	if err := errors.Join(c.Copy(ctx, held, 0, c.Size()), c.Close()); err != nil {
		return nil, err
	}
	return held, nil
}
