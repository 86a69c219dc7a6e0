package manifest

import (
	"context"
	"fmt"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// knot puts directories of which each names the next one twice: 2^levels paths. wide are the entries of the last one.
func knot(t *testing.T, o objects, levels int, s split, wide []Entry) Entry {
	t.Helper()
	entries := wide
	var dir Entry
	for range levels + 1 {
		root, size := build(t, o.put, s, entries)
		dir = Entry{Kind: Directory, Root: root, Size: size}
		entries = []Entry{dir, dir}
		entries[0].Name, entries[1].Name = "a", "b"
	}
	return dir
}

// counted is o.get, and counts what was read. It fails after very many reads, so that no test takes for ever.
func (o objects) counted(reads *int) Getter {
	return func(ctx context.Context, root b3.Root) ([]byte, error) {
		if *reads++; *reads > 100_000 {
			return nil, status.Errorf(status.Internal, "too many reads")
		}
		return o.get(ctx, root)
	}
}

// TestWalkOfKnot: a walk of paths that lead to the same directories again and again ends.
func TestWalkOfKnot(t *testing.T) {
	t.Parallel()
	const levels, bound = 60, 1000
	o := objects{}
	top := knot(t, o, levels, standard, nil)
	count := func(_ string, _ Entry) error { return nil }
	reads := 0
	w := tree{walker: walker{nodes: o.counted(&reads).nodes()}, fn: count, repeats: repeats{left: bound}}
	err := w.dir(t.Context(), nodeRef{root: top.Root}, "", 1)
	if status.Of(err) != status.BadRequest {
		t.Errorf("the error is %v", err)
	}
	if most := levels + bound + 10; reads > most {
		t.Errorf("%d directories were read, the most are %d", reads, most)
	}

	d := differ{walker: walker{nodes: o.counted(&reads).nodes()}, repeats: repeats{left: bound},
		fn: func(string, *Entry, *Entry) error { return nil }}
	reads = 0
	err = d.pair(t.Context(), "", nil, &top, 0)
	if status.Of(err) != status.BadRequest {
		t.Errorf("the error of Diff is %v", err)
	}
	if most := levels + bound + 10; reads > most {
		t.Errorf("%d directories were compared, the most are %d", reads, most)
	}
}

// TestDiffOfKnots: directories whose entries are the same, in other nodes, are compared once.
func TestDiffOfKnots(t *testing.T) {
	t.Parallel()
	const levels = 60
	o := objects{}
	var files []Entry
	for i := range 40 {
		files = append(files, Entry{Name: fmt.Sprintf("file %02d", i), Root: b3.Sum([]byte{byte(i)}), Size: 1})
	}
	one := knot(t, o, levels, standard, files)
	other := knot(t, o, levels, split{min: 600, max: MaxNode, modulus: 1}, files)
	if one.Root == other.Root {
		t.Fatal("the trees are the same")
	}
	reads, found := 0, 0
	err := Diff(t.Context(), o.counted(&reads), one, other, func(string, *Entry, *Entry) error {
		found++
		return nil
	})
	if err != nil || found != 0 {
		t.Errorf("%d differences, %v", found, err)
	}
	if most := 8 * levels; reads > most {
		t.Errorf("%d nodes were read, the most are %d", reads, most)
	}
}
