// Package tree turns files and directories of this machine into objects and
// manifests, and back.
//
// One way, [Disk] lists what is on disk, or [TarItems] what is in a tar, as
// [Items]; [Add] stores them, or [SendItems] sends them to a node. [CachedItems]
// spares reading what the add cache knows. The other way, [Extract] writes what a
// node sent to a new place, and [Update] brings an existing one to it.
package tree

import (
	"errors"
	"io"
	"iter"
	"os"
	"syscall"

	"allium/node/tree/addcache"
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

	// Root is the address of a file's content where it is known. The store is
	// asked for it, and what the next paragraph says is read only when it has
	// not got it; without that it is conflict.
	Root b3.Root

	// One of the two gives a file's bytes. Body must be consumed before the
	// next item is asked for (a tar stream); Open may be called later and from
	// another goroutine (a file system).
	Body io.Reader
	Size int64 // of Body
	Open func() (io.ReadCloser, error)
	file diskFile // a file on disk, when it was listed
	was  uint64   // hash of the path of a tar's entry before it was normalised; 0 when it is the same
}

// diskFile is the state of a file on disk. The zero one is of no file.
type diskFile struct {
	size  int64
	stamp addcache.Stamp
}

// Items yields trees one after the other, each depth first: a directory before
// its entries, the entries of one directory in bytewise order of their names.
// Anything else is refused by the manifest builder, with the entry named.
type Items = iter.Seq2[Item, error]

// diskError gives file system errors the user can act on an outcome.
func diskError(err error) error {
	switch {
	case err == nil:
		return nil
	case os.IsNotExist(err):
		return status.Errorf(status.NotFound, "%w", err)
	case os.IsPermission(err):
		return status.Errorf(status.Forbidden, "%w", err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return status.Errorf(status.BadRequest, "%w; add a part of the tree from within it", err)
	}
	return err
}
