package store

// openFiles holds the maximum number of files that each cache of open files keeps open.
type openFiles struct {
	segments int // segments; others are opened for each read
	objects  int // large objects, two files each
	index    int // tables of the index
}

// defaultOpenFiles are the sizes of the caches where descriptors are plenty.
var defaultOpenFiles = openFiles{segments: 512, objects: 64, index: 256}

// minOpenFiles are the smallest sizes of the caches. The index keeps 64 tables
// open in any case.
var minOpenFiles = openFiles{segments: 8, objects: 2, index: 74}

func (o openFiles) sum() int { return o.segments + 2*o.objects + o.index }

// MaxOpenFiles and MinOpenFiles are the most descriptors that the caches of open
// files can use, and the fewest that they need.
var (
	MaxOpenFiles = defaultOpenFiles.sum()
	MinOpenFiles = minOpenFiles.sum()
)

// openFilesOf divides n descriptors among the caches. 0 is MaxOpenFiles; fewer
// than MinOpenFiles are raised to it.
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
