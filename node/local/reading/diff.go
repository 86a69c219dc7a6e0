package reading

import (
	"context"
	"errors"
	"iter"

	"allium/gateway/api"
	"allium/internal/ordered"
	"allium/node/local/opener"
	"allium/protocols/manifest"
)

// Diff implements api.Reader.
func (a *Reader) Diff(ctx context.Context, from, to string) iter.Seq2[api.Change, error] {
	return func(yield func(api.Change, error) bool) {
		err := func() error {
			old, err := a.named(ctx, from)
			if err != nil {
				return err
			}
			next, err := a.named(ctx, to)
			if err != nil {
				return err
			}
			change := func(path string, prev, next *manifest.Entry) error {
				if !yield(changeOf(path, prev, next), nil) {
					return ordered.ErrStopped
				}
				return nil
			}
			return manifest.Diff(ctx, opener.Manifests(a.opt.Source), old, next, change)
		}()
		if err != nil && !errors.Is(err, ordered.ErrStopped) {
			yield(api.Change{}, err)
		}
	}
}

// named returns the entry that a key names; of the empty key, the zero entry.
func (a *Reader) named(ctx context.Context, key string) (manifest.Entry, error) {
	if key == "" {
		return manifest.Entry{}, nil
	}
	ctx, root, path, err := a.split(ctx, key)
	if err != nil {
		return manifest.Entry{}, err
	}
	if path != "" {
		return manifest.Lookup(ctx, opener.Manifests(a.opt.Source), root, path)
	}
	o, err := a.resolve(ctx, key)
	e := manifest.Entry{Kind: manifest.File, Root: o.Root, Size: o.Size}
	if o.Kind == api.Directory {
		e.Kind = manifest.Directory
	}
	return e, err
}

func changeOf(path string, prev, next *manifest.Entry) api.Change {
	c := api.Change{Op: api.ChangedEntry, Path: path}
	if prev == nil {
		c.Op = api.AddedEntry
	} else {
		c.Old = new(entryOf(*prev))
	}
	if next == nil {
		c.Op = api.RemovedEntry
	} else {
		c.New = new(entryOf(*next))
	}
	return c
}

func entryOf(e manifest.Entry) api.Entry {
	return api.Entry{
		Name: e.Name, Kind: kindOf(e.Kind), Root: e.Root, Size: e.Size, Executable: e.Executable, Target: e.Target,
	}
}
