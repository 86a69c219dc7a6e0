package gc

import (
	"context"
	"encoding/binary"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

func numbered(kind, n, i int) b3.Root {
	p := binary.LittleEndian.AppendUint64(nil, uint64(kind))
	return b3.Sum(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(p, uint64(n)), uint64(i)))
}

// TestManyWaiting: a walk holds a bounded number of directories that wait to be read, and reads those that it dropped
// for that later. Such a tree needs few bytes: nearly all that it names is not stored.
func TestManyWaiting(t *testing.T) {
	t.Parallel()
	const levels, wide, missing = 40, 8000, 99
	nodes := map[b3.Root]*manifest.Node{}
	last := numbered(0, levels, 0)
	nodes[last] = &manifest.Node{}
	for n := range levels {
		side := numbered(1, n, 0)
		nodes[side] = &manifest.Node{}
		all := []manifest.Entry{{Kind: manifest.Directory, Root: numbered(0, n+1, 0)}}
		for i := range wide {
			all = append(all, manifest.Entry{Kind: manifest.Directory, Root: numbered(missing, n, i)})
		}
		nodes[numbered(0, n, 0)] = &manifest.Node{Entries: append(all,
			manifest.Entry{Kind: manifest.Directory, Root: side})}
	}
	reads := map[b3.Root]int{}
	most := 0
	var w walker
	w = walker{
		trees: &trees{deps: Deps{Node: func(_ context.Context, root b3.Root) (*manifest.Node, error) {
			reads[root]++
			most = max(most, w.pending)
			return nodes[root], nil
		}}},
		pause: func(context.Context) error { return nil }, visit: func(manifest.Ref) bool { return false },
		damaged: func([]Step) { t.Error("a directory is damaged") },
	}
	if _, stopped, err := w.walk(t.Context(), numbered(0, 0, 0)); err != nil || stopped {
		t.Fatal(stopped, err)
	}
	if most > maxPending {
		t.Errorf("%d directories waited, the most are %d", most, maxPending)
	}
	for root := range nodes {
		if n := reads[root]; n < 1 || n > 2 {
			t.Errorf("a directory was read %d times", n)
		}
	}
	if want := levels*(wide+2) + 1; len(reads) != want {
		t.Errorf("%d directories were looked for, want %d", len(reads), want)
	}
}
