package localapi

import (
	"bytes"
	"context"
	"io"

	"golang.org/x/sync/errgroup"

	"allium/gateway/content"
	"allium/node/objects"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/resolver"
	"allium/store"
)

// source is where a reader gets what it reads.
type source interface {
	content.Opener
	// fetchTree brings a whole directory near before it is read, many objects a
	// request. It returns how many of its bytes an earlier fetch had left, and how
	// many there are.
	fetchTree(ctx context.Context, root b3.Root) (resumed, total int64, err error)
	// fetchFiles brings files near before they are read.
	fetchFiles(ctx context.Context, roots []b3.Root) error
	// walk calls each for every entry below a directory, in the order of
	// manifest.Walk, files for every file named.
	walk(ctx context.Context, root b3.Root, each func(early) error) error
	files(ctx context.Context, roots []b3.Root, each func(early) error) error
	// openFile opens a file that walk or files told of.
	openFile(ctx context.Context, r early) (b3.Content, error)
}

// early is an entry, and the bytes of its file if they were read already.
type early struct {
	path  string
	entry manifest.Entry
	held  *heldBytes // nil: not read
	err   error
}

// heldBytes is a file that was read whole, and proved.
type heldBytes struct{ bytes.Buffer }

func (h *heldBytes) Size() int64 { return int64(h.Len()) }

func (h *heldBytes) Copy(_ context.Context, w io.Writer, start, end int64) error {
	_, err := w.Write(h.Bytes()[start:end])
	return err
}

func (h *heldBytes) Close() error { return nil }

// inTurn reads objects that are near one after the other.
type inTurn struct{ content.Opener }

func (inTurn) fetchTree(context.Context, b3.Root) (resumed, total int64, err error) {
	return 0, 0, nil
}

func (inTurn) fetchFiles(context.Context, []b3.Root) error {
	return nil // opening them will say that they are not here
}

func (s inTurn) walk(ctx context.Context, root b3.Root, each func(early) error) error {
	return manifest.Walk(ctx, objects.Manifests(s), root, func(path string, e manifest.Entry) error {
		return each(early{path: path, entry: e})
	})
}

func (inTurn) files(_ context.Context, roots []b3.Root, each func(early) error) error {
	for _, root := range roots {
		if err := each(early{entry: manifest.Entry{Root: root}}); err != nil {
			return err
		}
	}
	return nil
}

func (s inTurn) openFile(ctx context.Context, r early) (b3.Content, error) {
	return s.Open(ctx, r.entry.Root, content.OpenOptions{Whole: true})
}

// fetching reads what the store has, and brings what it lacks into it first.
type fetching struct {
	inTurn
	store    *store.Store
	resolver *resolver.Resolver
}

func (s fetching) fetchTree(ctx context.Context, root b3.Root) (resumed, total int64, err error) {
	defer s.store.Hold()()
	info, err := s.resolver.FetchTree(ctx, root, resolver.FetchOptions{})
	return info.Resumed, info.Bytes, err
}

// fetchWorkers is how many files of one request are fetched at a time.
const fetchWorkers = 16

func (s fetching) fetchFiles(ctx context.Context, roots []b3.Root) error {
	has, err := s.store.Has(ctx, roots)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchWorkers)
	for i, root := range roots {
		if has[i] != b3.Complete {
			g.Go(func() error {
				_, err := s.resolver.Fetch(ctx, root, resolver.FetchOptions{})
				return err
			})
		}
	}
	return g.Wait()
}
