package store

import "allium/store/disk"

// openFiles is how many files each cache of open files may hold.
type openFiles struct {
	segments int // kept open for reading; others are opened for each read
	objects  int // large objects that stay open after a read, two files each
	index    int // tables of the index
}

// The share of each cache in Config where descriptors are plenty.
var defaultOpenFiles = openFiles{segments: 512, objects: 64, index: 256}

// minOpenFiles is what no shortage takes away. The index keeps 64 tables open
// in any case.
var minOpenFiles = openFiles{segments: 8, objects: 2, index: 74}

func (o openFiles) sum() int { return o.segments + 2*o.objects + o.index }

// The descriptors that the store keeps in its caches: as many as are of use, and
// the fewest that it can work with.
var (
	MaxOpenFiles = defaultOpenFiles.sum()
	MinOpenFiles = minOpenFiles.sum()
)

// openFilesOf divides n descriptors among the caches; 0 stands for MaxOpenFiles,
// and fewer than MinOpenFiles for those.
func openFilesOf(n int) openFiles {
	if n == 0 || n >= MaxOpenFiles {
		return defaultOpenFiles
	}
	extra := max(0, n-MinOpenFiles)
	share := func(most, least int) int { return least + (most-least)*extra/(MaxOpenFiles-MinOpenFiles) }
	return openFiles{
		segments: share(defaultOpenFiles.segments, minOpenFiles.segments),
		objects:  share(defaultOpenFiles.objects, minOpenFiles.objects),
		index:    share(defaultOpenFiles.index, minOpenFiles.index),
	}
}

// shed closes what the store keeps open only for speed.
func (s *Store) shed() (closed int) {
	if d, ok := s.backend.(*disk.Backend); ok && s.admission.Opened() {
		closed = d.Shed()
	}
	return closed + s.openFiles.Shed()
}
