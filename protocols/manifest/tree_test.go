package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"allium/protocols/status"
)

func TestWalk(t *testing.T) {
	o := objects{}
	root := testTree(t, o)
	var paths []string
	see := func(path string, e Entry) error {
		if got, err := Lookup(t.Context(), o.get, root, path); err != nil || got != e {
			t.Errorf("%s: walked over %v, looked up %v, %v", path, e, got, err)
		}
		paths = append(paths, path)
		return nil
	}
	if err := Walk(t.Context(), o.get, root, see); err != nil {
		t.Fatal(err)
	}
	want := []string{"b", "b/deep", "b/deep/é.txt", "b/file", "link", "many", "many/file-00000000.dat"}
	if len(paths) != len(want)-1+1000 || !slices.Equal(paths[:len(want)], want) {
		t.Errorf("%d paths, the first %q", len(paths), paths[:min(len(paths), len(want))])
	}
	stop := errors.New("enough")
	calls := 0
	err := Walk(t.Context(), o.get, root, func(path string, _ Entry) error {
		if calls++; path == "b/deep" {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || calls != 2 {
		t.Errorf("%v after %d entries", err, calls)
	}
	// What a directory entry names must be a directory of that size.
	sub, size := build(t, o.put, standard, []Entry{fileEntry("x", "x")})
	for want, e := range map[string]Entry{
		"its parent says": {Name: "d", Kind: Directory, Root: sub, Size: size + 1},
		"not here":        {Name: "d", Kind: Directory, Root: fileEntry("", "none").Root, Size: 99},
	} {
		bad, _ := build(t, o.put, standard, []Entry{e})
		if err := Walk(t.Context(), o.get, bad, func(string, Entry) error { return nil }); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestWalkBoundsDepth: a chain of small directories costs whoever makes it
// nothing.
func TestWalkBoundsDepth(t *testing.T) {
	for _, c := range []struct {
		name  string
		depth int // directories, root included
		ok    bool
		want  string
	}{
		{"d", maxNesting, true, ""},
		{"d", maxNesting + 1, false, "more than 255 directories"},
		{"d", 5000, false, "more than 255 directories"},
		{strings.Repeat("n", MaxName), 17, true, ""}, // 16 names are 4,095 bytes
		{strings.Repeat("n", MaxName), 18, false, "the limit is 4096"},
	} {
		o := objects{}
		root, size := build(t, o.put, standard, nil)
		for range c.depth - 1 {
			root, size = build(t, o.put, standard, []Entry{{Name: c.name, Kind: Directory, Root: root, Size: size}})
		}
		seen := 0
		err := Walk(t.Context(), o.get, root, func(string, Entry) error { seen++; return nil })
		if c.ok {
			if err != nil || seen != c.depth-1 {
				t.Errorf("%d directories: %d entries, %v", c.depth, seen, err)
			}
			continue
		}
		var named *EntryError
		if !errors.As(err, &named) || status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d directories: %v", c.depth, err)
		}
	}
}

// TestWalkBoundsWhatItHolds: nodes of a mebibyte one below the other are
// refused, one after the other they are not.
func TestWalkBoundsWhatItHolds(t *testing.T) {
	o := objects{}
	byMax := split{min: MaxNode, max: MaxNode, modulus: 1 << 31}
	const perNode = MaxNode/MaxTarget - 5
	fat := func(i int) Entry {
		return Entry{Name: fmt.Sprintf("link-%05d", i), Kind: Link, Target: strings.Repeat("x", MaxTarget)}
	}
	child, size := build(t, o.put, standard, []Entry{fileEntry("x", "")})
	for range 20 {
		entries := []Entry{{Name: "d", Kind: Directory, Root: child, Size: size}}
		for i := range perNode {
			entries = append(entries, fat(i))
		}
		child, size = build(t, o.put, byMax, entries)
	}
	err := Walk(t.Context(), o.get, child, func(string, Entry) error { return nil })
	if status.Of(err) != status.BodyCap || !strings.Contains(err.Error(), fmt.Sprint(maxLoaded)) {
		t.Errorf("nested: %v", err)
	}

	var many []Entry
	for i := range 20 * perNode {
		many = append(many, fat(i))
	}
	root, _ := build(t, o.put, byMax, many)
	if names, err := drain(t.Context(), o.get, root); err != nil || len(names) != len(many) {
		t.Errorf("in a row: %d of %d entries, %v", len(names), len(many), err)
	}
}
