package watch

import (
	"fmt"
	"hash/maphash"
	"io/fs"
	"path/filepath"
)

// fingerprint is a hash of the names, sizes, modes and times of a tree: two that differ mean that the
// tree changed. It is compared within one process only.
type fingerprint uint64

// seed is that of all fingerprints.
var seed = maphash.MakeSeed()

// take returns the fingerprint of a tree: of its names, and the size, mode and time of each.
func take(path string) fingerprint {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		_, _ = fmt.Fprintf(&h, "%q %s\n", name, look(d, err)) // a hash takes everything
		return nil
	})
	return fingerprint(h.Sum64())
}

// look returns what an entry looks like: "?" if it cannot be read.
func look(d fs.DirEntry, err error) string {
	if err != nil {
		return "?"
	}
	info, err := d.Info()
	if err != nil {
		return "?"
	}
	return fmt.Sprint(info.Size(), info.Mode(), info.ModTime().UnixNano())
}
