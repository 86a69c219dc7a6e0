package reading

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/policy"
	"allium/node/local/opener"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/resolver/names"
	"allium/resolver/names/lookup"
)

// Keys finds what keys name.
type Keys interface {
	Resolve(ctx context.Context, key string, opt lookup.Options) (names.Target, error)
}

// Allowed returns keys that refuse a name that leads to something that the denylist names: denied returns an error
// for that. An address is left to the listener, which sees it in the request.
func Allowed(keys Keys, filter policy.Filter) Keys {
	return allowedKeys{keys, filter}
}

type allowedKeys struct {
	Keys
	filter policy.Filter
}

// Resolve implements Keys.
func (k allowedKeys) Resolve(ctx context.Context, key string, opt lookup.Options) (names.Target, error) {
	t, err := k.Keys.Resolve(ctx, key, opt)
	if err == nil && t.Name != nil {
		err = k.filter.Path(t.Root, t.Path)
	}
	return t, err
}

// Options holds the dependencies and settings of a [Reader]. Source and Keys are required.
type Options struct {
	Source Source
	Keys   Keys

	// Prefixed finds the objects here whose addresses begin with digits, in order, and at most so many. If it is nil,
	// the beginning of an address stands for nothing.
	Prefixed func(ctx context.Context, digits string, most int) ([]b3.Root, error)

	WritesFiles bool   // streams of large files have a WriteFile
	MovesFiles  bool   // streams of large files have a MoveFile
	RestoresIn  string // directory of the store, which restores files that it gives to outputs; "": it gives none
}

// Reader reads objects by their keys. It implements api.Reader, and is safe for concurrent use.
type Reader struct{ opt Options }

var _ api.Reader = (*Reader)(nil)

// New returns a Reader.
func New(o Options) *Reader { return &Reader{o} }

// From returns a Reader that is as a, but for its source.
func (a *Reader) From(s Source) *Reader {
	o := a.opt
	o.Source = s
	return New(o)
}

// Under returns a copy of ctx for work on the target of a key, whose lookups belong to that of the name.
func Under(ctx context.Context, t names.Target) context.Context {
	if t.Name == nil {
		return ctx
	}
	return status.WithParent(ctx, t.Name.LookupID)
}

// split returns the address and the path that a key stands for, and the context for work on them.
func (a *Reader) split(ctx context.Context, key string) (_ context.Context, root b3.Root, path string, err error) {
	if key, err = a.Canonical(ctx, key); err != nil {
		return ctx, root, "", err
	}
	t, err := a.opt.Keys.Resolve(ctx, key, lookup.Options{})
	return Under(ctx, t), t.Root, t.Path, err
}

// resolve returns the object that a key names.
func (a *Reader) resolve(ctx context.Context, key string) (api.Object, error) {
	o, c, err := a.Open(ctx, key, false)
	if c != nil {
		_ = c.Close()
	}
	return o, err
}

// Root returns the address that a key names. It reads objects only for a key with a
// path.
func (a *Reader) Root(ctx context.Context, key string) (b3.Root, error) {
	_, root, err := a.RootUnder(ctx, key)
	return root, err
}

// RootUnder is Root, with the context for work on the object.
func (a *Reader) RootUnder(ctx context.Context, key string) (context.Context, b3.Root, error) {
	ctx, root, path, err := a.split(ctx, key)
	if err != nil || path == "" {
		return ctx, root, err
	}
	e, err := manifest.Lookup(ctx, opener.Manifests(a.opt.Source), root, path)
	if err == nil && e.Kind == manifest.Link {
		err = LinkError(key)
	}
	return ctx, e.Root, err
}

// Open opens the object that a key names. whole says that the caller reads all of it.
// The content of a link is nil; the caller closes any other content.
func (a *Reader) Open(ctx context.Context, key string, whole bool) (api.Object, b3.Content, error) {
	ctx, root, path, err := a.split(ctx, key)
	if err != nil {
		return api.Object{}, nil, err
	}
	o := api.Object{Root: root}
	via := b3.Root{}
	if path != "" {
		e, err := manifest.Lookup(ctx, opener.Manifests(a.opt.Source), root, path)
		if err != nil {
			return api.Object{}, nil, err
		}
		o = api.Object{
			Root: e.Root, Kind: kindOf(e.Kind), Size: e.Size, Name: e.Name, Executable: e.Executable,
		}
		via = root
	}
	if o.Kind == api.Link {
		return o, nil, nil
	}
	c, err := a.opt.Source.Open(ctx, o.Root, content.OpenOptions{Via: via, Whole: whole})
	if err != nil {
		return api.Object{}, nil, err
	}
	o.Size = c.Size()
	if r, ok := c.(resumer); ok {
		o.Resumed = r.Resumed()
	}
	if l, ok := c.(lookedUp); ok {
		o.LookupID = l.LookupID().String()
	}
	if o.Kind == "" {
		o.Kind, err = KindOf(ctx, c)
	}
	if err != nil {
		return api.Object{}, nil, errors.Join(err, c.Close())
	}
	return o, c, nil
}

// resumer is a [content.Content] that continues an earlier fetch.
type resumer interface {
	Resumed() int64 // bytes that the earlier fetch has stored
}

// lookedUp is a [content.Content] that a recorded lookup found.
type lookedUp interface {
	LookupID() status.LookupID
}

// KindOf returns the kind of an object without a directory entry. It is a
// directory when its content starts with the magic of a manifest and decodes as one
// (SPEC §1), and a file otherwise.
func KindOf(ctx context.Context, c b3.Content) (api.Kind, error) {
	if c.Size() > manifest.MaxNode {
		return api.File, nil
	}
	var head bytes.Buffer
	if err := c.Copy(ctx, &head, 0, min(c.Size(), int64(len(manifest.Magic)))); err != nil {
		return "", err
	}
	if !manifest.IsManifest(head.Bytes()) {
		return api.File, nil
	}
	var whole bytes.Buffer
	if err := c.Copy(ctx, &whole, 0, c.Size()); err != nil {
		return "", err
	}
	if _, err := manifest.Refs(whole.Bytes()); err == nil {
		return api.Directory, nil
	}
	return api.File, nil
}

// LinkError returns the error for a key of a link where only a file or a directory is read.
func LinkError(key string) error {
	return status.Errorf(status.BadRequest, "%s is a link; name what it points to", key)
}

func kindOf(k manifest.EntryKind) api.Kind {
	switch k {
	case manifest.Directory:
		return api.Directory
	case manifest.Link:
		return api.Link
	}
	return api.File
}

// Cat implements api.Reader.
func (a *Reader) Cat(ctx context.Context, key string, r b3.Range) (*api.Stream, error) {
	o, c, err := a.Open(ctx, key, r.Start == 0 && r.End < 0)
	switch {
	case err != nil:
		return nil, err
	case o.Kind == api.Link:
		return nil, LinkError(key)
	case o.Kind == api.Directory:
		err := status.Errorf(status.BadRequest, "%s is a directory; use `allium get` or `allium ls`", key)
		return nil, errors.Join(err, c.Close())
	}
	return stream(ctx, o, c, r)
}

// stream returns a stream of the bytes [r.Start, r.End) of c. The stream closes c.
func stream(ctx context.Context, o api.Object, c b3.Content, r b3.Range) (*api.Stream, error) {
	end := c.Size()
	if r.End >= 0 {
		end = min(r.End, end)
	}
	if r.Start < 0 || r.Start > end {
		err := status.Errorf(status.BadRange,
			"bytes %d to %d are not within the %d bytes of %s", r.Start, r.End, c.Size(), o.Root)
		return nil, errors.Join(err, c.Close())
	}
	return &api.Stream{Object: o, Body: newBody(ctx, func(ctx context.Context, w io.Writer) error {
		return c.Copy(ctx, w, r.Start, end)
	}, c.Close)}, nil
}

// Get implements api.Reader.
func (a *Reader) Get(ctx context.Context, key string) (*api.Stream, error) {
	o, c, err := a.Open(ctx, key, true)
	switch {
	case err != nil:
		return nil, err
	case o.Kind == api.Link:
		return nil, LinkError(key)
	case o.Kind == api.File:
		s, err := stream(ctx, o, c, b3.Range{End: -1})
		if err == nil {
			s.WriteFile, s.MoveFile = a.fileWriter(ctx, o, c), a.fileMover(ctx, o, c)
		}
		return s, err
	}
	s := &api.Stream{Object: o}
	s.Body = newBody(ctx, func(ctx context.Context, w io.Writer) error {
		resumed, bytes, err := a.opt.Source.fetchTree(ctx, o.Root)
		if err != nil {
			return err
		}
		if s.Resumed += resumed; s.Resumed > 0 {
			s.TreeBytes = bytes
		}
		return a.writeTree(ctx, w, o.Root)
	}, c.Close)
	return s, nil
}

// List implements api.Reader.
func (a *Reader) List(ctx context.Context, key string) iter.Seq2[api.Entry, error] {
	return func(yield func(api.Entry, error) bool) {
		o, err := a.resolve(ctx, key)
		if err == nil && o.Kind != api.Directory {
			err = status.Errorf(status.BadRequest,
				"%s is a %s, not a directory; use `allium cat` or `allium stat`", key, o.Kind)
		}
		if err != nil {
			yield(api.Entry{}, err)
			return
		}
		for e, err := range manifest.Entries(ctx, opener.Manifests(a.opt.Source), o.Root) {
			if !yield(entryOf(e), err) || err != nil {
				return
			}
		}
	}
}

// Stat implements api.Reader.
func (a *Reader) Stat(ctx context.Context, key string) (api.Stat, error) {
	o, err := a.resolve(ctx, key)
	if err != nil {
		return api.Stat{}, err
	}
	if o.Kind == api.Link {
		return api.Stat{}, LinkError(key)
	}
	st := api.Stat{
		Root: o.Root, CID: o.Root.CID().String(), Kind: o.Kind, Size: o.Size, Groups: b3.Groups(o.Size),
	}
	if o.Kind == api.Directory {
		for _, err := range manifest.Entries(ctx, opener.Manifests(a.opt.Source), o.Root) {
			if err != nil {
				return api.Stat{}, err
			}
			st.Entries++
		}
	}
	return st, nil
}
