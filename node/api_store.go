package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"strings"

	"allium/gateway"
	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
)

// storeAPI is the part of the local API that needs a store and something to
// open objects with: the store itself when no node runs, the resolver when one
// does. It implements client.Store.
type storeAPI struct {
	st      *store.Store // nil behind a gateway, where only the methods of client.Reader work
	objects gateway.Opener
	// ahead reads the files of a directory before their turn; nil where each is
	// near, or comes with the directory.
	ahead *ahead
	// fetchTree brings a whole directory into the store before it is read, many
	// objects a request; nil when no node runs.
	fetchTree func(context.Context, b3.Root) (resolver.TreeInfo, error)
	// fetchFile brings one object into the store; nil when no node runs.
	fetchFile func(context.Context, b3.Root) error
	// repair fetches an object that is damaged or missing; nil when no node runs.
	repair func(context.Context, b3.Root) error
	// pinned is told of every new pin; nil when no node runs.
	pinned func(context.Context, b3.Root)
	// unpinned is told of every object whose last pin was removed; may be nil.
	unpinned func(context.Context, b3.Root)
	// amnesia is set where the store is in RAM.
	amnesia bool
	// noContent is set on a seed.
	noContent bool
}

// errNoContent is what a seed answers to who wants it to hold something.
var errNoContent = status.Errorf(status.NotAllowed, "this node is a seed: it helps others to find each other, and neither holds nor fetches content; use another node, or another node.profile")

var _ client.Store = (*storeAPI)(nil)

// Add implements client.Store.
func (a *storeAPI) Add(ctx context.Context, tar io.Reader, o client.AddOptions, progress client.ProgressFunc) iter.Seq2[client.Added, error] {
	return a.AddItems(ctx, TarItems(tar), o, progress)
}

// AddItems is Add of items of this process.
func (a *storeAPI) AddItems(ctx context.Context, items Items, o client.AddOptions, progress client.ProgressFunc) iter.Seq2[client.Added, error] {
	return func(yield func(client.Added, error) bool) {
		if a.noContent {
			yield(client.Added{}, errNoContent)
			return
		}
		defer a.st.Hold()() // until the pins are set
		var stats AddStats
		if progress != nil {
			items = reporting(items, &stats, progress)
		}
		var charge *store.Charge
		if !o.NoPin {
			charge = a.st.Charge(o.Label)
			defer charge.Release()
		}
		stopped := false
		err := addTrees(ctx, a.st, charge, items, &stats, func(ctx context.Context, added client.Added) error {
			if !o.NoPin {
				if err := a.pin(ctx, added.Root, store.PinOptions{Recursive: added.Kind == client.Directory, Label: o.Label, Charge: charge}); err != nil {
					return err
				}
			}
			if !yield(added, nil) {
				stopped = true
				return errStopped
			}
			return nil
		})
		if err != nil && !stopped {
			yield(client.Added{}, err)
		}
	}
}

// errStopped ends an add whose consumer has seen enough.
var errStopped = errors.New("node: the consumer stopped")

// reporting tells progress how far an add is whenever it asks for an item.
func reporting(items Items, stats *AddStats, progress client.ProgressFunc) Items {
	return func(yield func(Item, error) bool) {
		for it, err := range items {
			progress(client.Progress{Bytes: stats.Bytes.Load(), Objects: stats.Files.Load(), Path: it.Path})
			if !yield(it, err) {
				return
			}
		}
	}
}

// getter reads manifest nodes, verified and at most manifest.MaxNode bytes.
func (a *storeAPI) getter() manifest.Getter {
	return func(ctx context.Context, root b3.Root) ([]byte, error) {
		c, err := a.objects.Open(ctx, root, gateway.OpenOptions{})
		if err != nil {
			return nil, err
		}
		defer c.Close()
		if c.Size() > manifest.MaxNode {
			return nil, status.Errorf(status.BadRequest, "%s is not a directory: it has %d bytes", root, c.Size())
		}
		var b bytes.Buffer
		b.Grow(int(c.Size()))
		if err := c.Copy(ctx, &b, 0, c.Size()); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}
}

// split parses a key "b3:<hex>[/path]".
func split(key string) (root b3.Root, path string, err error) {
	addr, path, _ := strings.Cut(key, "/")
	root, err = b3.Parse(addr)
	return root, strings.Trim(path, "/"), err
}

// resolve finds what a key names.
func (a *storeAPI) resolve(ctx context.Context, key string) (client.Object, error) {
	o, c, err := a.open(ctx, key, false)
	if c != nil {
		_ = c.Close()
	}
	return o, err
}

// root is the address that a key names; only a path needs looking up.
func (a *storeAPI) root(ctx context.Context, key string) (b3.Root, error) {
	root, path, err := split(key)
	if err != nil || path == "" {
		return root, err
	}
	e, err := manifest.Lookup(ctx, a.getter(), root, path)
	if err == nil && e.Kind == manifest.Link {
		err = linkError(key)
	}
	return e.Root, err
}

// open finds and opens what a key names, of which the caller wants the whole or
// a part. The content of a link is nil; any other is closed by the caller.
func (a *storeAPI) open(ctx context.Context, key string, whole bool) (client.Object, gateway.Content, error) {
	root, path, err := split(key)
	if err != nil {
		return client.Object{}, nil, err
	}
	o := client.Object{Root: root}
	via := b3.Root{}
	if path != "" {
		e, err := manifest.Lookup(ctx, a.getter(), root, path)
		if err != nil {
			return client.Object{}, nil, err
		}
		o = client.Object{Root: e.Root, Kind: kindOf(e.Kind), Size: e.Size, Name: e.Name, Executable: e.Executable}
		via = root
	}
	if o.Kind == client.Link {
		return o, nil, nil
	}
	c, err := a.objects.Open(ctx, o.Root, gateway.OpenOptions{Via: via, Whole: whole})
	if err != nil {
		return client.Object{}, nil, err
	}
	o.Size = c.Size()
	if r, ok := c.(resumer); ok {
		o.Resumed = r.Resumed()
	}
	if o.Kind == "" {
		o.Kind, err = kindOfContent(ctx, c)
	}
	if err != nil {
		return client.Object{}, nil, errors.Join(err, c.Close())
	}
	return o, c, nil
}

// resumer is a [gateway.Content] that goes on where an earlier fetch stopped.
type resumer interface {
	Resumed() int64 // bytes that it had left
}

// kindOfContent tells what a root is that no directory entry describes: it is
// a directory only when magic and decoding agree (SPEC §1).
func kindOfContent(ctx context.Context, c gateway.Content) (client.Kind, error) {
	if c.Size() > manifest.MaxNode {
		return client.File, nil
	}
	var head bytes.Buffer
	if err := c.Copy(ctx, &head, 0, min(c.Size(), int64(len(manifest.Magic)))); err != nil {
		return "", err
	}
	if !manifest.IsManifest(head.Bytes()) {
		return client.File, nil
	}
	var whole bytes.Buffer
	if err := c.Copy(ctx, &whole, 0, c.Size()); err != nil {
		return "", err
	}
	if _, err := manifest.Decode(whole.Bytes()); err == nil {
		return client.Directory, nil
	}
	return client.File, nil
}

func linkError(key string) error {
	return status.Errorf(status.BadRequest, "%s is a link; name what it points to", key)
}

func kindOf(k manifest.EntryKind) client.Kind {
	switch k {
	case manifest.Directory:
		return client.Directory
	case manifest.Link:
		return client.Link
	}
	return client.File
}

// Cat implements client.Store.
func (a *storeAPI) Cat(ctx context.Context, key string, r client.Range) (*client.Stream, error) {
	o, c, err := a.open(ctx, key, r.Start == 0 && r.End < 0)
	switch {
	case err != nil:
		return nil, err
	case o.Kind == client.Link:
		return nil, linkError(key)
	case o.Kind == client.Directory:
		err := status.Errorf(status.BadRequest, "%s is a directory; use `allium get` or `allium ls`", key)
		return nil, errors.Join(err, c.Close())
	}
	return stream(ctx, o, c, r)
}

// stream reads bytes [r.Start, r.End) of c, which it closes in the end.
func stream(ctx context.Context, o client.Object, c gateway.Content, r client.Range) (*client.Stream, error) {
	end := c.Size()
	if r.End >= 0 {
		end = min(r.End, end)
	}
	if r.Start < 0 || r.Start > end {
		err := status.Errorf(status.BadRange, "bytes %d to %d are not within the %d bytes of %s", r.Start, r.End, c.Size(), o.Root)
		return nil, errors.Join(err, c.Close())
	}
	return &client.Stream{Object: o, Body: newBody(ctx, func(ctx context.Context, w io.Writer) error {
		return c.Copy(ctx, w, r.Start, end)
	}, c.Close)}, nil
}

// Get implements client.Store.
func (a *storeAPI) Get(ctx context.Context, key string) (*client.Stream, error) {
	o, c, err := a.open(ctx, key, true)
	switch {
	case err != nil:
		return nil, err
	case o.Kind == client.Link:
		return nil, linkError(key)
	case o.Kind == client.File:
		return stream(ctx, o, c, client.Range{End: -1})
	}
	s := &client.Stream{Object: o}
	s.Body = newBody(ctx, func(ctx context.Context, w io.Writer) error {
		if a.fetchTree != nil {
			info, err := a.fetchTree(ctx, o.Root)
			if err != nil {
				return err
			}
			if s.Resumed += info.Resumed; s.Resumed > 0 {
				s.TreeBytes = info.Bytes
			}
		}
		return a.writeTree(ctx, w, o.Root)
	}, c.Close)
	return s, nil
}

// List implements client.Store.
func (a *storeAPI) List(ctx context.Context, key string) iter.Seq2[client.Entry, error] {
	return func(yield func(client.Entry, error) bool) {
		o, err := a.resolve(ctx, key)
		if err == nil && o.Kind != client.Directory {
			err = status.Errorf(status.BadRequest, "%s is a %s, not a directory; use `allium cat` or `allium stat`", key, o.Kind)
		}
		if err != nil {
			yield(client.Entry{}, err)
			return
		}
		for e, err := range manifest.Entries(ctx, a.getter(), o.Root) {
			if !yield(entryOf(e), err) || err != nil {
				return
			}
		}
	}
}

// Stat implements client.Store.
func (a *storeAPI) Stat(ctx context.Context, key string) (client.Stat, error) {
	o, err := a.resolve(ctx, key)
	if err != nil {
		return client.Stat{}, err
	}
	if o.Kind == client.Link {
		return client.Stat{}, linkError(key)
	}
	st := client.Stat{Root: o.Root, CID: o.Root.CID().String(), Kind: o.Kind, Size: o.Size, Groups: b3.Groups(o.Size)}
	if o.Kind == client.Directory {
		for _, err := range manifest.Entries(ctx, a.getter(), o.Root) {
			if err != nil {
				return client.Stat{}, err
			}
			st.Entries++
		}
	}
	if a.st == nil {
		return st, nil
	}
	switch _, err := a.st.Stat(ctx, o.Root); {
	case err == nil:
		st.Local = true
	case status.Of(err) != status.NotFound:
		return client.Stat{}, err
	}
	st.Pins, err = a.pinsOf(ctx, o.Root)
	return st, err
}
