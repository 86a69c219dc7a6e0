package extract

import (
	"errors"
	"hash/maphash"
	"os"
	"strings"

	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Listing checks the entries of a directory in the order of a walk, the directory itself first: their
// order, names, kinds and depth, and where links lead. It holds 8 bytes for each name of the open
// directories. It is not safe for concurrent use.
type Listing struct {
	target string // for messages
	fold   *folder
	stack  []listed
	any    bool // names may collide where case is ignored
}

// listed is a directory that still takes entries.
type listed struct {
	path   string
	folded map[uint64]struct{} // hashes of the folded names
}

// NewListing returns the check of one directory, which messages call target. One directory may hold
// names that differ in case or normalisation only if allowCaseCollisions is set.
func NewListing(target string, allowCaseCollisions bool) *Listing {
	return &Listing{target: target, any: allowCaseCollisions, fold: newFolder()}
}

// Check checks the next entry. Its errors are of the type [*manifest.EntryError]: bad_request for an
// entry that breaks the rules of the format, conflict for a name that collides with another.
func (l *Listing) Check(path string, e manifest.Entry) error {
	if path == "" {
		if e.Kind != manifest.Directory {
			return refuse(l.target, "a %s cannot take the place of a directory", e.Kind)
		}
		l.stack = append(l.stack[:0], listed{folded: map[uint64]struct{}{}})
		return nil
	}
	above, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		above, name = path[:i], path[i+1:]
	}
	for len(l.stack) > 0 && l.stack[len(l.stack)-1].path != above {
		l.stack = l.stack[:len(l.stack)-1]
	}
	if len(l.stack) == 0 || len(path) > manifest.MaxPath || path[0] == '/' {
		return refuse(path, "out of order, absolute, or a path of more than %d bytes", manifest.MaxPath)
	}
	if reason := manifest.NameProblem(name); reason != "" {
		return refuse(path, "%s", reason)
	}
	if err := l.collision(path, name); err != nil {
		return err
	}
	switch {
	case e.Kind == manifest.Link:
		return linkProblem(path, e.Target)
	case e.Kind != manifest.Directory:
		return nil
	case len(l.stack) == manifest.MaxNesting:
		return refuse(path, "more than %d directories inside each other", manifest.MaxNesting)
	}
	l.stack = append(l.stack, listed{path: path, folded: map[uint64]struct{}{}})
	return nil
}

// collision returns a conflict if a name of the same directory folds to the same.
func (l *Listing) collision(path, name string) error {
	if l.any {
		return nil
	}
	d := l.stack[len(l.stack)-1]
	h := maphash.String(l.fold.seed, l.fold.fold(name))
	if _, hit := d.folded[h]; hit {
		return &manifest.EntryError{Entry: path, Outcome: status.Conflict, Reason: "the same name as another " +
			"where case is ignored: both are extracted only with --allow-case-collisions"}
	}
	d.folded[h] = struct{}{}
	return nil
}

// Directories opens the directories of paths below a root. It follows no link. It keeps the last one
// open, for more paths in it. It is not safe for concurrent use.
type Directories struct {
	root *os.Root
	last *os.Root // nil: none is open
	path string   // of last
}

// NewDirectories returns the directories below root, which stays open when they are closed.
func NewDirectories(root *os.Root) *Directories { return &Directories{root: root} }

// Of opens the directory that path, relative to the root, lies in. It returns it and the last name of
// the path. The caller does not close it, and uses it until the next call. If something else than
// directories leads there, a link too, the error is conflict.
func (d *Directories) Of(path string) (*os.Root, string, error) {
	above, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		above, name = path[:i], path[i+1:]
	}
	if above == "" {
		return d.root, name, nil
	}
	if d.last != nil && d.path == above {
		return d.last, name, nil
	}
	d.Close()
	at := d.root
	for part := range strings.SplitSeq(above, "/") {
		next, err := OpenBelow(at, part)
		if at != d.root {
			_ = at.Close() // nothing was written to it
		}
		if err != nil {
			return nil, "", err
		}
		at = next
	}
	d.last, d.path = at, above
	return at, name, nil
}

// Close closes the directory that is open. Of can be called again.
func (d *Directories) Close() {
	if d.last != nil {
		_ = d.last.Close() // nothing was written to it
		d.last = nil
	}
}

// OpenBelow opens the directory name in at. If name is no directory, a link too, the error is conflict.
func OpenBelow(at *os.Root, name string) (*os.Root, error) {
	info, err := at.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, status.Errorf(status.Conflict, "%q is no directory any more", name)
	}
	dir, err := at.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	if opened, err := dir.Stat("."); err != nil || !os.SameFile(info, opened) { // it was swapped for a link
		return nil, errors.Join(status.Errorf(status.Conflict, "%q is no directory any more", name), dir.Close())
	}
	return dir, nil
}
