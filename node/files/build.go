package files

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

// builder builds manifests from items in the order of Items. It has one manifest
// builder for each directory on the path to the last item, so the depth of the tree
// bounds its memory.
type builder struct {
	pipeline *addPipeline
	added    api.Added // the tree that is being built; its Name is empty before the first
	open     []openDir
	links    int // bytes in the paths and targets of the tree's links
}

// openDir is a directory that still takes entries.
type openDir struct {
	path string
	b    *manifest.Builder
}

// add takes the next item. It first closes the directories that do not contain it.
func (t *builder) add(ctx context.Context, a *pipelineItem) error {
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

// begin starts a tree with its first item.
func (t *builder) begin(p string, a *pipelineItem) error {
	t.added, t.links = api.Added{Name: p}, 0
	switch a.Kind {
	case manifest.Directory:
		t.added.Kind = api.Directory
		t.descend(p)
	case manifest.File:
		t.added.Kind, t.added.Root = api.File, a.object.Root
		t.count(a)
	default:
		return status.Errorf(status.BadRequest, "%s: a link has no content; add what it points to", p)
	}
	return nil
}

// enter adds an item to the innermost open directory.
func (t *builder) enter(ctx context.Context, p string, a *pipelineItem) error {
	if err := t.check(p, a); err != nil {
		return err
	}
	if a.Kind == manifest.Directory {
		t.descend(p) // close adds it to its parent, once it has an address
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

// check refuses an item that get could not write back.
func (t *builder) check(p string, a *pipelineItem) error {
	inner := innerPath(p)
	reason := manifest.PathProblem(inner, a.Kind)
	if a.Kind == manifest.Link && reason == "" {
		reason = manifest.LinkProblem(inner, a.Target)
		if t.links += len(inner) + len(a.Target); t.links > manifest.MaxLinkBytes {
			return status.Errorf(status.BodyCap, "%s: the tree has more than %d bytes of links",
				a.Path, manifest.MaxLinkBytes)
		}
	}
	if reason != "" {
		return status.Errorf(status.BadRequest, "%s: %s", a.Path, reason)
	}
	return nil
}

// descend opens the directory at p.
func (t *builder) descend(p string) {
	t.open = append(t.open, openDir{path: p, b: manifest.NewBuilder(t.put)})
}

// count adds a file to the totals of its tree.
func (t *builder) count(a *pipelineItem) {
	t.pipeline.stats.files.Add(1)
	t.added.Files++
	if a.reused {
		t.added.Reused++
	} else {
		t.added.Hashed++
	}
	t.added.Bytes += a.object.Size
	t.countNew(a.object)
}

// countNew adds the size of an object that the store did not hold before.
func (t *builder) countNew(o Object) {
	if o.New {
		t.added.New += o.Size
	}
}

// put stores one manifest node.
func (t *builder) put(ctx context.Context, node []byte) (b3.Root, error) {
	o, err := t.pipeline.st.PutBytes(ctx, node)
	t.countNew(o)
	return o.Root, err
}

// close finishes the innermost directory and adds it to its parent.
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

// finish closes the directories of the current tree, makes the tree durable and
// reports it.
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
	t.pipeline.roots.flush()
	return t.pipeline.each(ctx, t.added)
}
