package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"allium/gateway/api"
	"allium/protocols/status"
)

// changedError reports a file whose size, as the operating system tells it, is not the number of
// bytes that were read: it changes, or its file system does not know the size. It unwraps to a conflict.
type changedError struct {
	error
	path  string
	disk  *Disk // nil: the item is not on disk
	twice bool  // it was read twice already
}

// Unwrap returns the error with the outcome.
func (e *changedError) Unwrap() error { return e.error }

const changes = "it changes while it is read, or its size is not the one that its disk tells"

// changed returns the error of an item that changed while it was read.
func (it *Item) changed() *changedError {
	path, do := cmp.Or(it.listed, it.Path), "add it again when nothing writes to it"
	if innerPath(path) != "" {
		do += ", or leave it out with --on-bad-entry=skip"
	}
	return &changedError{&status.Error{
		Outcome: status.Conflict, Detail: changedFile, Message: fmt.Sprintf("%s: %s; %s", path, changes, do),
	}, path, it.disk, false}
}

// changedFile is the detail of the error for a file that changed while it was read.
const changedFile = "changed_file"

// leaveOut leaves the file out of this add, and of every later walk of its Disk, if bad entries are
// skipped. It returns false if the file may not be left out.
func (e *changedError) leaveOut() bool {
	d := e.disk
	if d == nil || !d.skip || innerPath(e.path) == "" {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leftOut == nil {
		d.leftOut = map[string]bool{}
	}
	if !d.leftOut[e.path] {
		d.leftOut[e.path] = true
		d.late.skipped(e.path, changes)
	}
	return true
}

// isLeftOut reports whether leaveOut was called for the file at a path of the tree.
func (d *Disk) isLeftOut(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leftOut[path]
}

// LeftOut returns the entries that were left out while files were read, and that no earlier call
// returned. Check cannot find these. It returns nil if there are none. Any goroutine may call it.
func (d *Disk) LeftOut() *api.AddNotes {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.late
	d.late = addNotes{}
	return n.get()
}

// toldSize returns the size that the operating system tells of an open file, or −1.
func toldSize(f io.Reader) (int64, error) {
	s, ok := f.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return -1, nil
	}
	info, err := s.Stat()
	if err != nil {
		return 0, diskError(err)
	}
	return info.Size(), nil
}

// maxChanging bounds the files of one add that may change while they are read. Each of them may cause all items to be
// sent twice more.
const maxChanging = 16

// resends decides whether sending all items once more can help. The zero value has seen no error.
type resends struct {
	lost    bool           // the node had lost an object that was sent by its address
	changed map[string]int // how often a file changed while it was read, by its path
}

// helps reports whether the items should be sent again after err.
func (r *resends) helps(err error) bool {
	if hasDetail(err, missingReference) {
		again := !r.lost
		r.lost = true
		return again
	}
	var e *changedError
	if !errors.As(err, &e) || e.twice {
		return false
	}
	if r.changed == nil {
		r.changed = map[string]int{}
	}
	if r.changed[e.path]++; len(r.changed) > maxChanging {
		return false
	}
	return r.changed[e.path] == 1 || e.leaveOut()
}
