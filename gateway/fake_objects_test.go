package gateway

import (
	"bytes"
	"context"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"allium/gateway/content"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// fakeObjects is a node's content in memory.
type fakeObjects struct {
	mu    sync.Mutex
	m     map[b3.Root]*fakeObject
	opens []content.OpenOptions
}

// fakeObject is one object and how it misbehaves.
type fakeObject struct {
	data   []byte
	remote bool
	failAt int64         // fail with err when that many bytes were written; 0: never
	err    error         // nil: Copy waits for its context instead
	gate   chan struct{} // Copy waits for it before its first byte
	panics bool

	hashed   sync.Once // computes what follows
	root     b3.Root
	size     int64
	outboard []byte
}

// opened is how objects were opened since the last call.
func (f *fakeObjects) opened() []content.OpenOptions {
	f.mu.Lock()
	defer f.mu.Unlock()
	opens := f.opens
	f.opens = nil
	return opens
}

func (f *fakeObjects) put(data []byte) b3.Root { return f.add(&fakeObject{data: data}) }

func (f *fakeObjects) add(o *fakeObject) b3.Root {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m == nil {
		f.m = map[b3.Root]*fakeObject{}
	}
	root := b3.Sum(o.data)
	f.m[root] = o
	return root
}

func (f *fakeObjects) Open(ctx context.Context, root b3.Root, o content.OpenOptions) (content.Content, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.opens = append(f.opens, o)
	obj, ok := f.m[root]
	if !ok || o.LocalOnly && obj.remote {
		return nil, status.Errorf(status.NotFound, "no provider of %s found; try again later", root)
	}
	return &fakeContent{obj}, nil
}

// Memory implements Objects: nothing of a fake lies in RAM.
func (f *fakeObjects) Memory(b3.Root) []byte { return nil }

// Cached implements Objects.
func (f *fakeObjects) Cached(b3.Root) bool { return false }

type fakeContent struct{ *fakeObject }

func (c *fakeContent) Size() int64  { return int64(len(c.data)) }
func (c *fakeContent) Close() error { return nil }

func (c *fakeContent) Copy(ctx context.Context, w io.Writer, start, end int64) error {
	if c.panics {
		panic("boom")
	}
	if c.gate != nil {
		select {
		case <-c.gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	fail := int64(len(c.data)) + 1
	if c.failAt > 0 || c.err != nil {
		fail = c.failAt
	}
	for at := start; at < end; {
		if at >= fail {
			if c.err != nil {
				return c.err
			}
			<-ctx.Done()
			return ctx.Err()
		}
		next := min(end, (at/b3.GroupSize+1)*b3.GroupSize, max(fail, at+1))
		if _, err := w.Write(c.data[at:next]); err != nil {
			return err
		}
		at = next
	}
	return nil
}

// Encode fails like Copy, at a group.
func (c *fakeContent) Encode(ctx context.Context, w io.Writer, start, end int64) error {
	var err error
	c.hashed.Do(func() {
		var outboard bytes.Buffer
		h := b3.NewHasher(&outboard, 1)
		if _, err = h.Write(c.data); err == nil {
			c.root, c.size, err = h.Sum()
		}
		c.outboard = outboard.Bytes()
	})
	if err != nil {
		return err
	}
	src := &fakeSource{
		Source: b3.FileSource(bytes.NewReader(c.data), bytes.NewReader(c.outboard), c.size), c: c, ctx: ctx,
	}
	e, err := bao.NewEncoder(b3.NewReader(c.root, c.size, src), b3.Range{Start: start, End: end})
	if err != nil {
		return err
	}
	_, err = e.WriteTo(w)
	return err
}

type fakeSource struct {
	b3.Source
	c   *fakeContent
	ctx context.Context
}

func (s *fakeSource) ReadGroup(g int64, p []byte) (int, error) {
	if err := s.c.Copy(s.ctx, io.Discard, g*b3.GroupSize, g*b3.GroupSize+int64(len(p))); err != nil {
		return 0, err
	}
	return s.Source.ReadGroup(g, p)
}

// put makes a directory out of paths to contents; a content beginning with
// "-> " is a link.
func (f *fakeObjects) tree(t testing.TB, files map[string]string) b3.Root {
	t.Helper()
	root, _ := f.dir(t, files)
	return root
}

func (f *fakeObjects) dir(t testing.TB, files map[string]string) (b3.Root, int64) {
	t.Helper()
	ctx := t.Context()
	below := map[string]map[string]string{}
	var names []string
	for p := range files {
		top, rest, nested := strings.Cut(p, "/")
		if below[top] == nil {
			below[top] = map[string]string{}
			names = append(names, top)
		}
		if nested && rest != "" {
			below[top][rest] = files[p]
		}
	}
	slices.Sort(names)
	b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return f.put(bytes.Clone(p)), nil })
	for _, name := range names {
		e := manifest.Entry{Name: name}
		content, isFile := files[name]
		switch target, isLink := strings.CutPrefix(content, "-> "); {
		case isLink:
			e.Kind, e.Target = manifest.Link, target
		case isFile:
			e.Root, e.Size = f.put([]byte(content)), int64(len(content))
			e.Executable = path.Ext(name) == ".sh"
		default:
			e.Kind = manifest.Directory
			e.Root, e.Size = f.dir(t, below[name])
		}
		if err := b.Add(ctx, e); err != nil {
			t.Fatal(err)
		}
	}
	root, size, err := b.Close(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return root, size
}
