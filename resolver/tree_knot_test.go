package resolver

import (
	"encoding/binary"
	"fmt"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// TestTreeOfKnot: a local directory that a tree names in many places is read once, also if it names more files than the
// fetch remembers otherwise.
func TestTreeOfKnot(t *testing.T) {
	const levels, files = 5, 70_000 // 2^levels paths to each file
	w := newWorld(t, nil)
	var entries []manifest.Entry
	for i := range uint64(files) {
		b := &blob{data: binary.BigEndian.AppendUint64(nil, i)}
		b.root = b3.Sum(b.data)
		w.local.add(b)
		entries = append(entries, file(fmt.Sprintf("%05d", i), b))
	}
	var all []*blob
	nodes := dir(t, entries...)
	all = append(all, nodes...)
	for range levels {
		below := last(nodes)
		detour := dir(t, subdir("c", below))
		nodes = dir(t, subdir("a", last(detour)), subdir("b", below))
		all = append(append(all, detour...), nodes...)
	}
	for _, b := range all {
		w.local.add(b)
	}
	info, err := w.FetchTree(t.Context(), last(all).root, FetchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(files + len(all) + levels); info.Objects > most {
		t.Errorf("the fetch looked at %d objects, the most are %d", info.Objects, most)
	}
}
