package watch

import (
	"fmt"
	"hash/maphash"
	"io/fs"
	"path/filepath"
)

// fingerprint is what a tree looks like without reading its files: two that differ mean that the
// tree changed. It is compared within one process only.
type fingerprint uint64

// seed is that of all fingerprints.
var seed = maphash.MakeSeed()

// take returns the fingerprint of a tree: of its names, and the size, mode and time of each.
func take(path string) fingerprint {
	var h maphash.Hash
	h.SetSeed(seed)
	_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = d.Info()
		}
		if err != nil {
			_, _ = fmt.Fprintf(&h, "%q ?\n", name) // a hash takes everything
			return nil
		}
		_, _ = fmt.Fprintf(&h, "%q %d %v %d\n", name, info.Size(), info.Mode(), info.ModTime().UnixNano())
		return nil
	})
	return fingerprint(h.Sum64())
}
