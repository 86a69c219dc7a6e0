package folder

import (
	"fmt"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// BenchmarkMeasure is the work before the first byte of an archive, and of its refusal: a directory of as many entries
// as are allowed, and one that has the same directory in many places.
func BenchmarkMeasure(b *testing.B) {
	f := newSource(b)
	var entries []manifest.Entry
	for i := range 200_000 {
		entries = append(entries, manifest.Entry{Name: fmt.Sprintf("%06d", i), Root: b3.Root{1}, Size: 4096})
	}
	flat := f.dir(b, "", entries...)
	bomb := f.dir(b, "", manifest.Entry{Name: "x", Root: b3.Root{1}, Size: 1})
	for range 60 {
		one, two := bomb, bomb
		one.Name, two.Name = "a", "b"
		bomb = f.dir(b, "", one, two)
	}
	for name, root := range map[string]b3.Root{"flat": flat.Root, "bomb": bomb.Root} {
		for _, format := range []string{formatTar, formatZip} {
			b.Run(name+"/"+format, func(b *testing.B) {
				t := f.tree(root)
				t.most.MaxEntries = 200_000
				for b.Loop() {
					var all window
					_, err := write(format, t, &all, 0)
					if (err != nil) != (name == "bomb") {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
