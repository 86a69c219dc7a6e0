package node

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"iter"

	"golang.org/x/sync/errgroup"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
)

// Diff implements client.Store.
func (a *storeAPI) Diff(ctx context.Context, from, to string) iter.Seq2[client.Change, error] {
	return func(yield func(client.Change, error) bool) {
		err := func() error {
			old, err := a.named(ctx, from)
			if err != nil {
				return err
			}
			next, err := a.named(ctx, to)
			if err != nil {
				return err
			}
			return manifest.Diff(ctx, a.getter(), old, next, func(path string, prev, next *manifest.Entry) error {
				if !yield(changeOf(path, prev, next), nil) {
					return errStopped
				}
				return nil
			})
		}()
		if err != nil && !errors.Is(err, errStopped) {
			yield(client.Change{}, err)
		}
	}
}

// named is what a key stands for; nothing for the empty key.
func (a *storeAPI) named(ctx context.Context, key string) (manifest.Entry, error) {
	if key == "" {
		return manifest.Entry{}, nil
	}
	root, path, err := split(key)
	if err != nil {
		return manifest.Entry{}, err
	}
	if path != "" {
		return manifest.Lookup(ctx, a.getter(), root, path)
	}
	o, err := a.resolve(ctx, key)
	e := manifest.Entry{Kind: manifest.File, Root: o.Root, Size: o.Size}
	if o.Kind == client.Directory {
		e.Kind = manifest.Directory
	}
	return e, err
}

func changeOf(path string, prev, next *manifest.Entry) client.Change {
	c := client.Change{Op: client.ChangedEntry, Path: path}
	if prev == nil {
		c.Op = client.AddedEntry
	} else {
		c.Old = new(entryOf(*prev))
	}
	if next == nil {
		c.Op = client.RemovedEntry
	} else {
		c.New = new(entryOf(*next))
	}
	return c
}

func entryOf(e manifest.Entry) client.Entry {
	return client.Entry{Name: e.Name, Kind: kindOf(e.Kind), Root: e.Root, Size: e.Size, Executable: e.Executable, Target: e.Target}
}

// Keep implements client.Store.
func (a *storeAPI) Keep(ctx context.Context, roots []b3.Root) ([]bool, error) {
	if a.amnesia {
		return nil, status.Errorf(status.Amnesia, "this node keeps its store in RAM and nothing for long; send the files themselves")
	}
	has, err := a.st.Keep(ctx, roots)
	if err != nil {
		return nil, err
	}
	have := make([]bool, len(roots))
	for i, p := range has {
		have[i] = p == store.Complete
	}
	return have, nil
}

// fetchFiles is how many files of one request are fetched at a time.
const fetchFiles = 16

// Files implements client.Store.
func (a *storeAPI) Files(ctx context.Context, roots []b3.Root) (*client.Stream, error) {
	if err := client.CheckRoots(len(roots)); err != nil {
		return nil, err
	}
	o := client.Object{Root: roots[0], Kind: client.Directory}
	return &client.Stream{Object: o, Body: newBody(ctx, func(ctx context.Context, w io.Writer) error {
		if err := a.fetchMissing(ctx, roots); err != nil {
			return err
		}
		tw := tar.NewWriter(w)
		each := func(r early) error { return a.writeFile(ctx, tw, r) }
		if a.ahead != nil {
			if err := a.ahead.files(ctx, roots, each); err != nil {
				return err
			}
			return tw.Close()
		}
		for _, root := range roots {
			if err := each(early{entry: manifest.Entry{Root: root}}); err != nil {
				return err
			}
		}
		return tw.Close()
	}, nil)}, nil
}

// fetchMissing brings what the store lacks of roots into it, where a node runs
// that can.
func (a *storeAPI) fetchMissing(ctx context.Context, roots []b3.Root) error {
	if a.fetchFile == nil {
		return nil // opening them will say that they are not here
	}
	has, err := a.st.Has(ctx, roots)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetchFiles)
	for i, root := range roots {
		if has[i] != store.Complete {
			g.Go(func() error { return a.fetchFile(ctx, root) })
		}
	}
	return g.Wait()
}

func (a *storeAPI) writeFile(ctx context.Context, tw *tar.Writer, r early) error {
	c, err := a.openFile(ctx, r)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := tw.WriteHeader(&tar.Header{Name: r.entry.Root.Hex(), Typeflag: tar.TypeReg, Mode: 0o644, Size: c.Size(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	return c.Copy(ctx, tw, 0, c.Size())
}
