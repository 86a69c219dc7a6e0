package reading

import (
	"context"
	"errors"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"allium/gateway/content"
	"allium/gateway/verified"
	"allium/internal/ordered"
	"allium/node/local/opener"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Bounds of reading ahead.
const (
	readAheadFiles  = verified.MaxIdleConns // files that are read at once
	readAheadBytes  = 1 << 20               // bytes of the largest file read ahead; others are streamed in order
	sequentialFiles = 64                    // files that are read one by one after a refusal for a limit
)

// Ahead returns a source that reads the small files of a directory ahead, several at
// once, because each costs a round trip. It yields files and errors in the order of
// the directory, as a sequential source does. It holds at most readAheadFiles ×
// readAheadBytes in memory.
//
// When a server refuses a file for a limit, this source has asked for too much at
// once. It then asks again for that file, alone, and reads the next sequentialFiles
// files one by one.
func Ahead(from content.Opener) Source { return newReadAhead(from) }

func newReadAhead(from content.Opener) *readAhead {
	return &readAhead{sequential: sequential{from}, slots: semaphore.NewWeighted(readAheadFiles)}
}

type readAhead struct {
	sequential
	slots *semaphore.Weighted // reading ahead takes one; opening a file in order takes all
	pause atomic.Int64        // files that are not to be read ahead
}

// walk implements source. The entries of small files have their bytes.
func (h *readAhead) walk(ctx context.Context, root b3.Root, each func(readEntry) error) error {
	return h.inOrder(ctx, func(ctx context.Context, submit func(func() readEntry) error) error {
		return manifest.Walk(ctx, opener.Manifests(h), root, func(path string, e manifest.Entry) error {
			return submit(func() readEntry {
				r := readEntry{path: path, entry: e}
				if e.Kind == manifest.File && e.Size <= readAheadBytes {
					r.data, r.err = h.read(ctx, e.Root, true)
				}
				return r
			})
		})
	}, each)
}

// files implements source. It knows only the addresses of the files, not their sizes.
func (h *readAhead) files(ctx context.Context, roots []b3.Root, each func(readEntry) error) error {
	return h.inOrder(ctx, func(ctx context.Context, submit func(func() readEntry) error) error {
		for _, root := range roots {
			err := submit(func() readEntry {
				r := readEntry{entry: manifest.Entry{Root: root}}
				r.data, r.err = h.read(ctx, root, false)
				return r
			})
			if err != nil {
				return err
			}
		}
		return nil
	}, each)
}

// inOrder runs the reads that produce submits and calls each for their results, in
// the order of the submissions.
func (h *readAhead) inOrder(
	ctx context.Context,
	produce func(context.Context, func(func() readEntry) error) error,
	each func(readEntry) error,
) error {
	var failed error
	err := ordered.Do(ctx, readAheadFiles, produce, func(r readEntry) bool {
		if status.Of(r.err).Retry() == status.RetryAfter {
			h.pause.Store(sequentialFiles)
			r.err = nil // each opens the file again
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

// openFile implements source. It returns the bytes that were read ahead. Otherwise it
// opens the file while no other is read ahead.
func (h *readAhead) openFile(ctx context.Context, r readEntry) (b3.Content, error) {
	if r.data != nil {
		return r.data, nil
	}
	if err := h.slots.Acquire(ctx, readAheadFiles); err != nil {
		return nil, err
	}
	defer h.slots.Release(readAheadFiles)
	return h.Open(ctx, r.entry.Root, content.OpenOptions{Whole: true})
}

// read returns the bytes of an object of at most readAheadBytes. It returns nil for a
// longer object, and during a pause after a refusal. small says that a directory gives
// a size within the bound; then one request asks for the whole object.
func (h *readAhead) read(ctx context.Context, root b3.Root, small bool) (*fileBytes, error) {
	if err := h.slots.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer h.slots.Release(1)
	if h.pause.Load() > 0 {
		h.pause.Add(-1)
		return nil, nil
	}
	c, err := h.Open(ctx, root, content.OpenOptions{Whole: small})
	if err != nil {
		return nil, err
	}
	if c.Size() > readAheadBytes {
		return nil, c.Close()
	}
	data := &fileBytes{}
	data.Grow(int(c.Size()))
	if err := errors.Join(c.Copy(ctx, data, 0, c.Size()), c.Close()); err != nil {
		return nil, err
	}
	return data, nil
}
