package manifest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// plan is a tree of the test: directories are not nil below.
type plan struct {
	entry Entry
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
		return &plan{entry: Entry{Kind: Link, Target: "t" + content}}
	}
	return &plan{entry: Entry{Kind: File, Root: b3.Sum([]byte(content)),
		Size: int64(len(content)), Executable: kind == 2}}
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
func (p *plan) write(t testing.TB, o objects, s split) Entry {
	if p.below == nil {
		return p.entry
	}
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(p.below)) {
		e := p.below[name].write(t, o, s)
		e.Name = name
		entries = append(entries, e)
	}
	root, size := build(t, o.put, s, entries)
	return Entry{Kind: Directory, Root: root, Size: size}
}

// flat lists a tree by path; what a directory is follows from what is in it.
func (p *plan) flat(path string, into map[string]Entry) {
	e := p.entry
	if p.below != nil {
		e = Entry{Kind: Directory}
	}
	into[path] = e
	for name, q := range p.below {
		q.flat(strings.TrimPrefix(path+"/"+name, "/"), into)
	}
}

func plain(e Entry) Entry {
	if e.Kind == Directory {
		return Entry{Kind: Directory}
	}
	e.Name = ""
	return e
}

// tiny splits so soon that twenty entries have several levels.
var tiny = split{min: 100, max: 400, modulus: 2}

// TestDiffApplied: the differences of two trees, applied to one, give the other.
func TestDiffApplied(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		from := genPlan(3).Draw(rt, "from")
		to := from.changed(rt, 3)
		if rapid.Bool().Draw(rt, "unlike") {
			to = genPlan(3).Draw(rt, "to")
		}
		have, want := map[string]Entry{}, map[string]Entry{}
		from.flat("", have)
		to.flat("", want)
		o := objects{}
		last := ""
		err := Diff(t.Context(), o.get, from.write(t, o, tiny), to.write(t, o, tiny),
			func(path string, prev, next *Entry) error {
				if last != "" && !before(last, path) {
					rt.Fatalf("%q came before %q", last, path)
				}
				last = path
				if e, ok := have[path]; ok != (prev != nil) || ok && e != plain(*prev) {
					rt.Fatalf("%s was %+v, not %+v", path, e, prev)
				}
				delete(have, path)
				if next != nil {
					have[path] = plain(*next)
				}
				return nil
			})
		if err != nil {
			rt.Fatal(err)
		}
		if !maps.Equal(have, want) {
			rt.Fatalf("got %v, want %v", have, want)
		}
	})
}

// before is the order of a walk: by elements.
func before(a, b string) bool {
	return slices.Compare(strings.Split(a, "/"), strings.Split(b, "/")) < 0
}

// TestDiffCost: in a directory of 100,000 entries the nodes read are those on
// the ways to what differs.
func TestDiffCost(t *testing.T) {
	t.Parallel()
	const n = 100_000
	o := objects{}
	entries := make([]Entry, 0, n+1)
	for i := range n {
		entries = append(entries, numbered(i))
	}
	whole := func(es []Entry) Entry {
		root, size := build(t, o.put, small, es)
		return Entry{Kind: Directory, Root: root, Size: size}
	}
	old := whole(entries)
	for name, c := range map[string]struct {
		change func([]Entry) []Entry
		want   int
	}{
		"nothing":  {func(es []Entry) []Entry { return es }, 0},
		"one":      {func(es []Entry) []Entry { es[n/3].Executable = !es[n/3].Executable; return es }, 1},
		"inserted": {func(es []Entry) []Entry { return slices.Insert(es, n/2, fileEntry(es[n/2].Name[:13]+"!", "new")) }, 1},
		"removed":  {func(es []Entry) []Entry { return slices.Delete(es, n/5, n/5+1) }, 1},
		"appended": {func(es []Entry) []Entry { return append(es, fileEntry("zzz", "new")) }, 1},
		"ends":     {func(es []Entry) []Entry { es[0].Size++; es[n-1].Size++; return es }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			changed := c.change(slices.Clone(entries))
			next := whole(changed)
			reads, found := 0, 0
			get := func(ctx context.Context, r b3.Root) ([]byte, error) { reads++; return o.get(ctx, r) }
			if err := Diff(t.Context(), get, old, next,
				func(string, *Entry, *Entry) error { found++; return nil }); err != nil {
				t.Fatal(err)
			}
			// A change may move one boundary, and with it a neighbour, on each level.
			if most := c.want * 2 * 2 * (MaxDepth + 1); found != c.want || reads > most {
				t.Errorf("%d differences, %d nodes read of %d, want at most %d", found, reads, len(o), most)
			}
		})
	}
}

func TestDiffKinds(t *testing.T) {
	t.Parallel()
	o := objects{}
	root, size := build(t, o.put, standard, []Entry{fileEntry("f", "x")})
	dir := Entry{Kind: Directory, Root: root, Size: size}
	file := fileEntry("", "x")
	link := Entry{Kind: Link, Target: "x"}
	for _, c := range []struct {
		name     string
		old, new Entry
		want     string
	}{
		{"nothing", Entry{}, Entry{}, ""},
		{"same file", file, file, ""},
		{"file and link", file, link, "M;"},
		{"file becomes directory", file, dir, "M;+f;"},
		{"directory becomes link", dir, link, "M;-f;"},
		{"new directory", Entry{}, dir, "+;+f;"},
		{"old directory", dir, Entry{}, "-;-f;"},
	} {
		got := ""
		err := Diff(t.Context(), o.get, c.old, c.new, func(path string, prev, next *Entry) error {
			got += map[[2]bool]string{{true, false}: "-", {false, true}: "+",
				{true, true}: "M"}[[2]bool{prev != nil, next != nil}] + path + ";"
			return nil
		})
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// TestDiffHostile: trees that are none end with an error, not with a walk that
// has no end.
func TestDiffHostile(t *testing.T) {
	t.Parallel()
	o := objects{}
	dir := func(c Child) Entry { return Entry{Kind: Directory, Root: c.Root, Size: c.Size} }
	deep := o.raw(t, kindDirectory)
	for range maxNesting {
		deep = o.raw(t, kindDirectory, *(&Entry{Name: "d", Kind: Directory, Root: deep.Root, Size: deep.Size}).wire())
	}
	leaf := o.raw(t, kindDirectory, *ptr(fileEntry("b", "x")).wire())
	other := o.raw(t, kindDirectory, *ptr(fileEntry("c", "x")).wire())
	lying := leaf
	lying.First = "a"
	index := o.raw(t, kindIndex, *leaf.wire())
	for range MaxDepth {
		index = o.raw(t, kindIndex, *index.wire())
	}
	for name, e := range map[string]Entry{
		"too deep":         dir(deep),
		"a lying index":    dir(o.raw(t, kindIndex, *lying.wire())),
		"too many indexes": dir(index),
		"not here":         {Kind: Directory, Root: b3.Sum([]byte("nothing")), Size: minNode},
	} {
		for _, pair := range [][2]Entry{{e, {}}, {{}, e}, {e, dir(other)}} {
			err := Diff(t.Context(), o.get, pair[0], pair[1], func(string, *Entry, *Entry) error { return nil })
			if out := status.Of(err); out != status.BadRequest && out != status.NotFound {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func ptr[T any](v T) *T { return &v }
