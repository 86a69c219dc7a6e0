package node

import (
	"context"
	"fmt"
	"path"
	"strings"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
)

// treeBuilder turns items in order into manifests. It keeps one manifest
// builder for each directory on the path to the item added last, so its memory
// is bounded by the depth of the tree.
type treeBuilder struct {
	pipeline *addPipeline
	added    client.Added // the tree under construction; Name is empty before the first
	open     []openDir
}

type openDir struct {
	path string
	b    *manifest.Builder
}

// add takes the next item, closing the directories it has left behind.
func (t *treeBuilder) add(ctx context.Context, a *adding) error {
	p := path.Clean(a.Path)
	if p == "." || p == ".." || strings.HasPrefix(p, "../") || strings.HasPrefix(p, "/") {
		return status.Errorf(status.BadRequest, "%q is not a path below what is added", a.Path)
	}
	if !strings.Contains(p, "/") {
		if err := t.finish(ctx); err != nil {
			return err
		}
		return t.begin(p, a)
	}
	for len(t.open) > 0 && !strings.HasPrefix(p, t.open[len(t.open)-1].path+"/") {
		if len(t.open) == 1 {
			break
		}
		if err := t.close(ctx); err != nil {
			return err
		}
	}
	if len(t.open) == 0 || t.open[len(t.open)-1].path != path.Dir(p) {
		return status.Errorf(status.BadRequest, "%s comes before the directory it is in", a.Path)
	}
	return t.enter(ctx, p, a)
}

// begin takes the item that stands for a whole tree.
func (t *treeBuilder) begin(p string, a *adding) error {
	t.added = client.Added{Name: p}
	switch a.Kind {
	case manifest.Directory:
		t.added.Kind = client.Directory
		t.descend(p)
	case manifest.File:
		t.added.Kind, t.added.Root = client.File, a.info.Root
		t.count(a)
	default:
		return status.Errorf(status.BadRequest, "%s: a link has no content of its own; add what it points to", p)
	}
	return nil
}

// enter puts an item into the innermost open directory.
func (t *treeBuilder) enter(ctx context.Context, p string, a *adding) error {
	if a.Kind == manifest.Directory {
		t.descend(p) // entered in its parent when it is closed and has an address
		return nil
	}
	e := manifest.Entry{Name: path.Base(p), Kind: a.Kind}
	if a.Kind == manifest.Link {
		e.Target = a.Target
	} else {
		e.Root, e.Size, e.Executable = a.info.Root, a.info.Size, a.Executable
		t.count(a)
	}
	if err := t.open[len(t.open)-1].b.Add(ctx, e); err != nil {
		return fmt.Errorf("%s: %w", a.Path, err)
	}
	return nil
}

func (t *treeBuilder) descend(p string) {
	t.open = append(t.open, openDir{path: p, b: manifest.NewBuilder(t.put)})
}

func (t *treeBuilder) count(a *adding) {
	t.pipeline.stats.Files.Add(1)
	t.added.Files++
	if a.reused {
		t.added.Reused++
	} else {
		t.added.Hashed++
	}
	t.added.Bytes += a.info.Size
	t.new(a.info)
}

func (t *treeBuilder) new(info store.Info) {
	if info.New {
		t.added.New += info.Size
		t.pipeline.stats.New.Add(info.Size)
	}
}

// put stores one manifest node.
func (t *treeBuilder) put(ctx context.Context, node []byte) (b3.Root, error) {
	info, err := t.pipeline.st.PutBytes(ctx, node, t.pipeline.put)
	t.new(info)
	return info.Root, err
}

// close finishes the innermost directory and enters it in its parent.
func (t *treeBuilder) close(ctx context.Context) error {
	d := t.open[len(t.open)-1]
	t.open = t.open[:len(t.open)-1]
	root, size, err := d.b.Close(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	if len(t.open) == 0 {
		t.added.Root = root
		return nil
	}
	e := manifest.Entry{Name: path.Base(d.path), Kind: manifest.Directory, Root: root, Size: size}
	if err := t.open[len(t.open)-1].b.Add(ctx, e); err != nil {
		return fmt.Errorf("%s: %w", d.path, err)
	}
	return nil
}

// finish closes the tree under construction, makes it durable and hands it
// over.
func (t *treeBuilder) finish(ctx context.Context) error {
	if t.added.Name == "" {
		return nil
	}
	for len(t.open) > 0 {
		if err := t.close(ctx); err != nil {
			return err
		}
	}
	if err := t.pipeline.st.Flush(ctx); err != nil {
		return err
	}
	return t.pipeline.each(ctx, t.added)
}
