package reading

import (
	"bytes"
	"context"
	"io"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/gateway/content"
	"allium/node/local/opener"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/resolver"
	"allium/store"
)

// Source opens the objects that a [Reader] reads.
type Source interface {
	content.Opener
	// fetchTree fetches a whole directory before it is read, many objects in one
	// request. resumed is how many of its total bytes an earlier fetch has stored.
	fetchTree(ctx context.Context, root b3.Root) (resumed, total int64, err error)
	// fetchFiles fetches files before they are read.
	fetchFiles(ctx context.Context, roots []b3.Root) error
	// walk calls each for every entry below a directory, in the order of
	// manifest.Walk.
	walk(ctx context.Context, root b3.Root, each func(readEntry) error) error
	// files calls each for every file of roots, in order.
	files(ctx context.Context, roots []b3.Root, each func(readEntry) error) error
	// openFile opens a file that walk or files has passed to each.
	openFile(ctx context.Context, r readEntry) (b3.Content, error)
}

// readEntry is an entry, with the bytes of its file if they were read ahead.
type readEntry struct {
	path  string
	entry manifest.Entry
	data  *fileBytes // nil: not read ahead
	err   error
}

// fileBytes is a whole, proved file in memory. It implements b3.Content.
type fileBytes struct{ bytes.Buffer }

func (h *fileBytes) Size() int64 { return int64(h.Len()) }

func (h *fileBytes) Copy(_ context.Context, w io.Writer, start, end int64) error {
	_, err := w.Write(h.Bytes()[start:end])
	return err
}

func (h *fileBytes) Close() error { return nil }

// InOrder returns a source that reads one object after the other and fetches nothing.
func InOrder(from content.Opener) Source { return sequential{from} }

// sequential is a source that reads one object after the other and fetches nothing.
type sequential struct{ content.Opener }

func (sequential) fetchTree(context.Context, b3.Root) (resumed, total int64, err error) {
	return 0, 0, nil
}

func (sequential) fetchFiles(context.Context, []b3.Root) error {
	return nil // Open reports a missing file
}

func (s sequential) walk(ctx context.Context, root b3.Root, each func(readEntry) error) error {
	return manifest.Walk(ctx, opener.Manifests(s), root, func(path string, e manifest.Entry) error {
		return each(readEntry{path: path, entry: e})
	})
}

func (sequential) files(_ context.Context, roots []b3.Root, each func(readEntry) error) error {
	for _, root := range roots {
		if err := each(readEntry{entry: manifest.Entry{Root: root}}); err != nil {
			return err
		}
	}
	return nil
}

func (s sequential) openFile(ctx context.Context, r readEntry) (b3.Content, error) {
	return s.Open(ctx, r.entry.Root, content.OpenOptions{Whole: true})
}

// Fetching is the source of a running node. It fetches missing objects into the store
// before they are read.
type Fetching struct {
	Objects  content.Opener
	Store    *store.Store
	Resolver *resolver.Resolver
	From     []peer.AddrInfo // peers that are asked first
}

// Source returns f as a source.
func (f Fetching) Source() Source { return fetching{sequential{f.Objects}, f} }

type fetching struct {
	sequential
	Fetching
}

// Open implements content.Opener.
func (s fetching) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	o.From = s.From
	return s.sequential.Open(ctx, root, o)
}

// options returns the options of a fetch.
func (s fetching) options() resolver.FetchOptions {
	return resolver.FetchOptions{Sources: resolver.Sources{Peers: s.From}}
}

func (s fetching) fetchTree(ctx context.Context, root b3.Root) (resumed, total int64, err error) {
	defer s.Store.HoldGC()()
	info, err := s.Resolver.FetchTree(ctx, root, s.options())
	return info.Resumed, info.Bytes, err
}

// fetchWorkers is the maximum number of files of one request that are fetched at once.
const fetchWorkers = 16

func (s fetching) fetchFiles(ctx context.Context, roots []b3.Root) error {
	has, err := s.Store.Has(ctx, roots)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchWorkers)
	for i, root := range roots {
		if has[i] != b3.Complete {
			g.Go(func() error {
				_, err := s.Resolver.Fetch(ctx, root, s.options())
				return err
			})
		}
	}
	return g.Wait()
}
