package extract

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// objects is a store of the test: what was put, by address.
type objects map[b3.Root][]byte

func (o objects) put(_ context.Context, p []byte) (b3.Root, error) {
	r := b3.Sum(p)
	o[r] = bytes.Clone(p)
	return r, nil
}

func (o objects) get(_ context.Context, r b3.Root) ([]byte, error) {
	p, ok := o[r]
	if !ok {
		return nil, status.Errorf(status.NotFound, "%s is not here", r)
	}
	return p, nil
}

func build(t testing.TB, put manifest.Putter, entries []manifest.Entry) (b3.Root, int64) {
	t.Helper()
	b := manifest.NewBuilder(put)
	for _, e := range entries {
		if err := b.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, size, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root, size
}

func fileEntry(name string, content string) manifest.Entry {
	return manifest.Entry{Name: name, Kind: manifest.File, Root: b3.Sum([]byte(content)), Size: int64(len(content))}
}

// plan is a tree of the test: directories are not nil below.
type plan struct {
	entry manifest.Entry
	below map[string]*plan
}

func genPlan(depth int) *rapid.Generator[*plan] {
	return rapid.Custom(func(t *rapid.T) *plan {
		p := &plan{below: map[string]*plan{}}
		names := rapid.SliceOfNDistinct(rapid.SampledFrom(planNames), 0, 24, rapid.ID[string]).Draw(t, "names")
		for _, name := range names {
			p.below[name] = genChild(t, depth)
		}
		return p
	})
}

// planNames collide often, and sort around "/".
var planNames = func() []string {
	names := []string{"a", "a-b", "a.b", "a0", "b", "é", "zz"}
	for i := range 40 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	return names
}()

func genChild(t *rapid.T, depth int) *plan {
	kind := rapid.IntRange(0, 3).Draw(t, "kind")
	content := rapid.SampledFrom([]string{"", "x", "yy"}).Draw(t, "content")
	switch {
	case kind == 0 && depth > 0:
		return genPlan(depth-1).Draw(t, "directory")
	case kind == 1:
		return &plan{entry: manifest.Entry{Kind: manifest.Link, Target: "t" + content}}
	}
	return &plan{entry: manifest.Entry{
		Kind: manifest.File, Root: b3.Sum([]byte(content)), Size: int64(len(content)), Executable: kind == 2,
	}}
}

// changed is p with a few entries changed.
func (p *plan) changed(t *rapid.T, depth int) *plan {
	q := &plan{below: maps.Clone(p.below)}
	for range rapid.IntRange(0, 3).Draw(t, "changes") {
		name := rapid.SampledFrom(planNames).Draw(t, "name")
		switch old := q.below[name]; rapid.IntRange(0, 2).Draw(t, "change") {
		case 0:
			delete(q.below, name)
		case 1:
			if old != nil && old.below != nil {
				q.below[name] = old.changed(t, depth-1)
			}
		default:
			q.below[name] = genChild(t, depth-1)
		}
	}
	return q
}

// write builds the tree and returns its entry.
func (p *plan) write(t testing.TB, o objects) manifest.Entry {
	if p.below == nil {
		return p.entry
	}
	var entries []manifest.Entry
	for _, name := range slices.Sorted(maps.Keys(p.below)) {
		e := p.below[name].write(t, o)
		e.Name = name
		entries = append(entries, e)
	}
	root, size := build(t, o.put, entries)
	return manifest.Entry{Kind: manifest.Directory, Root: root, Size: size}
}

// flat lists a tree by path; what a directory is follows from what is in it.
func (p *plan) flat(path string, into map[string]manifest.Entry) {
	e := p.entry
	if p.below != nil {
		e = manifest.Entry{Kind: manifest.Directory}
	}
	into[path] = e
	for name, q := range p.below {
		q.flat(strings.TrimPrefix(path+"/"+name, "/"), into)
	}
}
