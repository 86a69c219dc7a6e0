package opener

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"path"

	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/manifest"
	"allium/protocols/object"
)

// exampleFiles is the directory that every node has, so that a visitor of a new gateway can open something.
//
//go:embed example
var exampleFiles embed.FS

// Example is the directory that every node has, as objects, none longer than a chunk group. It is in no store, and
// immutable. Gateways and peers are served from it, and a fetch stores it.
type Example struct {
	Root    b3.Root
	objects map[b3.Root][]byte
}

// NewExample makes the objects. Their addresses are the same in every node of this version.
func NewExample(ctx context.Context) (*Example, error) {
	d := &Example{objects: map[b3.Root][]byte{}}
	root, _, err := d.add(ctx, "example")
	if err != nil {
		return nil, fmt.Errorf("make the example: %w", err)
	}
	d.Root = root
	return d, nil
}

// put keeps an object.
func (d *Example) put(_ context.Context, p []byte) (b3.Root, error) {
	if len(p) > b3.GroupSize {
		return b3.Root{}, fmt.Errorf("an object of %d bytes needs a proof", len(p))
	}
	root := b3.Sum(p)
	d.objects[root] = bytes.Clone(p)
	return root, nil
}

// add makes the manifest of an embedded directory, whose names are in order.
func (d *Example) add(ctx context.Context, dir string) (b3.Root, int64, error) {
	list, err := fs.ReadDir(exampleFiles, dir)
	if err != nil {
		return b3.Root{}, 0, err
	}
	b := manifest.NewBuilder(d.put)
	for _, f := range list {
		e := manifest.Entry{Name: f.Name()}
		if f.IsDir() {
			e.Kind = manifest.Directory
			e.Root, e.Size, err = d.add(ctx, path.Join(dir, f.Name()))
		} else {
			var p []byte
			if p, err = exampleFiles.ReadFile(path.Join(dir, f.Name())); err == nil {
				e.Root, err = d.put(ctx, p)
				e.Size = int64(len(p))
			}
		}
		if err == nil {
			err = b.Add(ctx, e)
		}
		if err != nil {
			return b3.Root{}, 0, err
		}
	}
	return b.Close(ctx)
}

// Bytes returns an object of the example, which must not be changed. A nil Example has none.
func (d *Example) Bytes(root b3.Root) (p []byte, ok bool) {
	c, ok := d.open(root)
	return c.data, ok
}

// Object returns an object of the example for the server of objects.
func (d *Example) Object(root b3.Root) (object.Object, bool) {
	c, ok := d.open(root)
	return c, ok
}

// open returns an object of the example. A nil Example has none.
func (d *Example) open(root b3.Root) (exampleContent, bool) {
	if d == nil {
		return exampleContent{}, false
	}
	p, ok := d.objects[root]
	return exampleContent{root, p}, ok
}

// exampleContent implements content.Content and object.Object.
type exampleContent struct {
	root b3.Root
	data []byte
}

func (c exampleContent) Size() int64  { return int64(len(c.data)) }
func (c exampleContent) Close() error { return nil }

// Reader returns a Reader of the only group.
func (c exampleContent) Reader() *b3.Reader {
	return b3.NewReader(c.root, c.Size(), b3.FileSource(bytes.NewReader(c.data), bytes.NewReader(nil), c.Size()))
}

func (c exampleContent) Covers(start, end int64) bool { return 0 <= start && end <= c.Size() }
func (c exampleContent) Failed(err error) error       { return err }

func (c exampleContent) Copy(_ context.Context, w io.Writer, start, end int64) error {
	if start == end {
		return nil
	}
	_, err := w.Write(c.data[start:end])
	return err
}

// Encode writes the only group, which needs no parents.
func (c exampleContent) Encode(_ context.Context, w io.Writer, start, end int64) error {
	e, err := bao.NewEncoder(c.Reader(), b3.Range{Start: start, End: end})
	if err != nil {
		return err
	}
	_, err = e.WriteTo(w)
	return err
}
