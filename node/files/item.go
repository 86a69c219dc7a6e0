// Package files adds files and directories of this machine to a store, and writes
// stored files and directories to disk.
//
// # Invariants
//
// An add stores files before the directories that name them, and reports a tree
// only once the tree is durable. It needs memory for the open directories and for a
// bounded number of files, not for the whole tree. An extraction writes nothing
// outside its target, and its target is complete or absent.
//
// # An add
//
// `allium add DIR` makes a [Disk] and calls [Disk.Check], which finds the entries
// that cannot be added. [CachedItems] then gives each listed file the address that
// the add cache knows. Without a node, [Add] takes these items: one goroutine reads
// them, workers store the files, and one goroutine builds the manifests in the order
// of the tree. With a node, [SendItems] asks which addresses the node holds and sends
// a tar with the other files. The node reads the tar with [TarItems] and calls Add; it
// reports the address of each file, and SendItems records it in the cache.
// [ArchiveAdder.Add] adds an archive that another program made, in any order.
//
// # A get
//
// `allium get` calls [Extract], which writes a stream from a node to a new file or
// directory. [Update] changes an existing one and asks the node only for the files
// that differ.
package files

import (
	"errors"
	"io"
	"iter"
	"syscall"

	"allium/node/files/addcache"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Item is one file, directory or link to add.
type Item struct {
	// Path is slash-separated. Its first element is the name of what is added:
	// "src", "src/go.mod" and "src/sort/sort.go" make one tree.
	Path       string
	Kind       manifest.EntryKind
	Executable bool
	Target     string // of a link

	// Root is the address of a file's content, zero when it is unknown. If the
	// store holds the object, the file is not read. If it does not, Open gives the
	// bytes; without Open the add fails with conflict.
	Root b3.Root

	// Body or Open gives the bytes of a file. Body (a tar stream) must be consumed
	// before the next item is requested. Open (a file on disk) may be called later
	// and from another goroutine.
	Body    io.Reader
	Size    int64 // bytes in Body; −1: not known
	Open    func() (io.ReadCloser, error)
	file    diskFile // state of a file on disk when it was listed
	disk    *Disk    // that listed the file; nil: it is not on disk
	listed  string   // its path when disk listed it
	rawHash uint64   // hash of a tar entry's path before it was normalised; 0: that changed nothing
}

// diskFile is the state of a file on disk; zero: the item is not on disk.
type diskFile struct {
	size  int64
	stamp addcache.Stamp
}

// Items yields trees one after the other, each depth first: a directory before
// its entries, the entries of one directory in bytewise order of their names.
// An add refuses any other order with an error that names the entry.
type Items = iter.Seq2[Item, error]

// diskError gives an outcome to an error of the file system about what is added.
func diskError(err error) error {
	o, ok := status.OfFile(err)
	switch {
	case !ok:
		return err
	case errors.Is(err, syscall.ENAMETOOLONG):
		return status.Errorf(o, "%w; add a part of the tree from within it", err)
	}
	return status.Errorf(o, "%w", err)
}
