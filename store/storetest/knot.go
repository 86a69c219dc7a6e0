package storetest

import (
	"context"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// Knot puts directories that each name the next one twice, and the last one a file: few objects with 2^levels paths. It
// returns their addresses, that of the file first and that of the top last.
func Knot(t testing.TB, put func(p []byte) b3.Root, levels int) []b3.Root {
	t.Helper()
	file := []byte("the end of a knot")
	roots := []b3.Root{put(file)}
	entries := []manifest.Entry{{Name: "file", Root: roots[0], Size: int64(len(file))}}
	for range levels + 1 {
		b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return put(p), nil })
		for _, e := range entries {
			if err := b.Add(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		root, size, err := b.Close(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		roots = append(roots, root)
		dir := manifest.Entry{Kind: manifest.Directory, Root: root, Size: size}
		entries = []manifest.Entry{dir, dir}
		entries[0].Name, entries[1].Name = "a", "b"
	}
	return roots
}
