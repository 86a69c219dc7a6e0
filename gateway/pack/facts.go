package pack

import (
	"io/fs"
	"os"
)

// fileFacts are the metadata of a file, and of a log and a journal of SQLite beside it. If they differ, the pack may
// differ. Each is nil where there is none.
type fileFacts [3]fs.FileInfo

// factsOf returns the facts of the file of a pack, which are all nil for an object.
func (o opener) factsOf(of Mount) (f fileFacts) {
	if of.File == "" {
		return f
	}
	root, err := os.OpenRoot(o.dir)
	if err != nil {
		return f // opening the file says why
	}
	defer root.Close()
	for i, suffix := range [len(f)]string{"", "-wal", "-journal"} {
		if info, err := root.Stat(of.File + suffix); err == nil {
			f[i] = info
		}
	}
	return f
}

// mended reports whether a file that could not be mounted was changed since.
func (o opener) mended(m *mount) bool {
	before, failed := m.failedFile()
	return failed && !before.equal(o.factsOf(m.of))
}

// equal reports whether f and g are of the same files, of the same sizes and dates.
func (f fileFacts) equal(g fileFacts) bool {
	for i, a := range f {
		b := g[i]
		if (a == nil) != (b == nil) {
			return false
		}
		if a != nil && (!os.SameFile(a, b) || a.Size() != b.Size() || !a.ModTime().Equal(b.ModTime())) {
			return false
		}
	}
	return true
}
