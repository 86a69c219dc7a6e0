package tree

import (
	"context"
	"fmt"
	"path"
	"strings"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// builder turns items in order into manifests. It keeps one manifest
// builder for each directory on the path to the item added last, so its memory
// is bounded by the depth of the tree.
type builder struct {
	pipeline *addPipeline
	added    api.Added // the tree under construction; Name is empty before the first
	open     []openDir
	links    int // bytes of the paths and targets of the tree's links
}

type openDir struct {
	path string
	b    *manifest.Builder
}

// add takes the next item, closing the directories it has left behind.
func (t *builder) add(ctx context.Context, a *adding) error {
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
func (t *builder) begin(p string, a *adding) error {
	t.added, t.links = api.Added{Name: p}, 0
	switch a.Kind {
	case manifest.Directory:
		t.added.Kind = api.Directory
		t.descend(p)
	case manifest.File:
		t.added.Kind, t.added.Root = api.File, a.object.Root
		t.count(a)
	default:
		return status.Errorf(status.BadRequest, "%s: a link has no content of its own; add what it points to", p)
	}
	return nil
}

// enter puts an item into the innermost open directory.
func (t *builder) enter(ctx context.Context, p string, a *adding) error {
	if err := t.check(p, a); err != nil {
		return err
	}
	if a.Kind == manifest.Directory {
		t.descend(p) // entered in its parent when it is closed and has an address
		return nil
	}
	e := manifest.Entry{Name: path.Base(p), Kind: a.Kind}
	if a.Kind == manifest.Link {
		e.Target = a.Target
	} else {
		e.Root, e.Size, e.Executable = a.object.Root, a.object.Size, a.Executable
		t.count(a)
	}
	if err := t.open[len(t.open)-1].b.Add(ctx, e); err != nil {
		return fmt.Errorf("%s: %w", a.Path, err)
	}
	return nil
}

// check refuses what get would not give back.
func (t *builder) check(p string, a *adding) error {
	inner := innerPath(p)
	reason := manifest.PathProblem(inner, a.Kind)
	if a.Kind == manifest.Link && reason == "" {
		reason = manifest.LinkProblem(inner, a.Target)
		if t.links += len(inner) + len(a.Target); t.links > manifest.MaxLinkBytes {
			return status.Errorf(status.BodyCap, "%s: the tree has more than %d bytes of links", a.Path, manifest.MaxLinkBytes)
		}
	}
	if reason != "" {
		return status.Errorf(status.BadRequest, "%s: %s", a.Path, reason)
	}
	return nil
}

func (t *builder) descend(p string) {
	t.open = append(t.open, openDir{path: p, b: manifest.NewBuilder(t.put)})
}

func (t *builder) count(a *adding) {
	t.pipeline.stats.files.Add(1)
	t.added.Files++
	if a.reused {
		t.added.Reused++
	} else {
		t.added.Hashed++
	}
	t.added.Bytes += a.object.Size
	t.new(a.object)
}

func (t *builder) new(o Object) {
	if o.New {
		t.added.New += o.Size
	}
}

// put stores one manifest node.
func (t *builder) put(ctx context.Context, node []byte) (b3.Root, error) {
	o, err := t.pipeline.st.PutBytes(ctx, node)
	t.new(o)
	return o.Root, err
}

// close finishes the innermost directory and enters it in its parent.
func (t *builder) close(ctx context.Context) error {
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
func (t *builder) finish(ctx context.Context) error {
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
