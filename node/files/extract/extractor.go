// Package extract writes files and directories of manifests to disk. An [Extractor]
// creates a new file or directory; an [Updater] changes an existing directory.
//
// # Invariants
//
// A hostile manifest reaches nothing outside the target: names are created in open
// directories, and no link is followed. A new target appears complete or not at all.
// During an update each name has its old or its new content, never a part. A process
// that is killed leaves only names like ".<name>.allium-XXXXXXXX", which the next
// extraction in that directory removes.
//
// # One extraction
//
// [Begin] opens the parent directory and removes leftovers. [Extractor.Dir],
// [Extractor.File] and [Extractor.Symlink] take the entries, depth first, and write them
// below a temporary sibling of the target. [Extractor.Move] takes a file that is whole
// already in place of a written one. [Extractor.Commit] creates the links and
// renames the sibling to the target. [Extractor.Abort] removes it instead.
package extract

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Options are the options of an extraction. The zero value is the safest.
type Options struct {
	Overwrite           bool // a file may replace an existing regular file
	KeepMode            bool // a file that is replaced keeps its permissions but for the executable bit
	AllowCaseCollisions bool // one directory may hold names that differ in case or normalisation only
	Sync                bool // files and directories are synced to disk before Commit returns
}

// Extractor writes one file or one directory tree. It writes to a temporary sibling of
// the target, ".<name>.allium-XXXXXXXX", and Commit renames that to the target. So the
// target is never partial, even after a crash. The sibling is locked while it is
// written; Begin removes unlocked siblings, which a killed process left.
//
// Paths are slash-separated and relative to the target. The target itself is "" and
// comes first. Entries come depth first, in any order within a directory. Each file and
// directory is created in its open parent directory, so neither a path nor a link can
// lead outside the target. Commit creates the links last, and only links that stay
// inside the target.
//
// The first error ends the extraction: later calls return it and Commit fails. A
// refused entry is a [*manifest.EntryError] with its name. An Extractor is not safe
// for concurrent use. Pair every Begin with a deferred Abort.
type Extractor struct {
	opts   Options
	target string // as given, for messages
	parent *os.Root
	base   string // name of the target in parent
	temporary

	kind  manifest.EntryKind // kind of the target, once begun
	stack []*openDir
	pendingLinks
	fold    *folder
	copyBuf []byte
	err     error // the first error; later calls return it
	done    bool  // committed or aborted
}

// temporary is the sibling that is written and then renamed to the target.
type temporary struct {
	tmp     string   // name in parent, once begun
	begun   bool     // the sibling exists
	adopted bool     // tmp is the path of a file that Move took, below parent
	lock    *os.File // holds the lock of the sibling; nil: it has none
}

// pendingLinks are the links to create after all other entries.
type pendingLinks struct {
	links   []pendingLink
	pending int // bytes in the paths and targets of links
}

// openDir is a directory that still takes entries. At most manifest.MaxNesting are
// open at once, each with a file descriptor.
type openDir struct {
	path  string
	dir   *os.Root
	names nameSet
}

type pendingLink struct{ path, target string }

// Begin prepares to write target. The parent directory must exist. A target that exists
// is a conflict, unless it is a regular file and opts.Overwrite is set. Begin writes
// nothing.
func Begin(target string, opts Options) (*Extractor, error) {
	dir, base := filepath.Split(filepath.Clean(target))
	if base == "" || base == "." || base == ".." {
		return nil, status.Errorf(status.BadRequest,
			"cannot extract to %q: name a file or directory to create", target)
	}
	if dir == "" {
		dir = "."
	}
	parent, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("extract to %q: %w", target, parentError(target, dir, err))
	}
	x := &Extractor{
		opts: opts, target: target, parent: parent, base: base, fold: newFolder(),
	}
	if err := x.checkTarget(opts.Overwrite); err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	sweep(parent)
	return x, nil
}

// createTemp creates the sibling and locks it, so that no other process takes it for a leftover.
func (x *Extractor) createTemp(create func(name string) (*os.File, error)) (*os.File, error) {
	t, err := createTemp(x.parent, x.base, create)
	if err != nil {
		return nil, err
	}
	x.temporary = temporary{tmp: t.name, begun: true, lock: t.lock}
	return t.file, nil
}

// unlockTemp releases the lock of the sibling.
func (x *Extractor) unlockTemp() {
	if x.lock != nil {
		_ = x.lock.Close() // nothing was written through it
		x.lock = nil
	}
}

// tempName returns a hidden name for the sibling of base, short enough for any base.
func tempName(base string) string {
	if most := manifest.MaxName - len(".") - len(tempMark) - tempRandom; len(base) > most {
		base = base[:most]
	}
	return "." + base + tempMark + strings.ToLower(rand.Text()[:tempRandom])
}

// checkTarget returns a conflict when the target exists. With overwrite it may be a
// regular file.
func (x *Extractor) checkTarget(overwrite bool) error {
	fi, err := x.parent.Lstat(x.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("extract to %q: %w", x.target, err)
	case overwrite && fi.Mode().IsRegular():
		return nil
	}
	return x.conflict()
}

func (x *Extractor) conflict() error {
	how := "remove it, or extract to another name"
	if fi, err := x.parent.Lstat(x.base); err == nil && fi.Mode().IsRegular() {
		how += ", or replace it with --overwrite"
	} else if err == nil && fi.IsDir() {
		how += ", or bring it up to date with --update"
	}
	return status.Errorf(status.Conflict, "%q exists: %s", x.target, how)
}

// Commit creates the links and renames the sibling to the target. After an error the
// target is unchanged, or complete and perhaps not durable; Abort removes the sibling.
func (x *Extractor) Commit() error {
	switch {
	case x.done:
		return status.Errorf(status.Internal, "the extraction to %q has ended", x.target)
	case x.err == nil && !x.begun:
		x.err = status.Errorf(status.Internal, "nothing was extracted to %q", x.target)
	case x.err == nil:
		x.err = x.commit()
	}
	if x.err != nil {
		return x.err
	}
	x.done = true
	x.unlockTemp()
	if err := x.parent.Close(); err != nil {
		return fmt.Errorf("extract to %q: %w", x.target, err)
	}
	return nil
}

func (x *Extractor) commit() error {
	if err := x.createLinks(); err != nil {
		return err
	}
	if err := x.leave(0); err != nil {
		return err
	}
	if err := x.rename(); err != nil {
		return err
	}
	if x.opts.Sync {
		return syncDir(x.parent, ".")
	}
	return nil
}

// rename moves the sibling to the target. It loses nothing that another process has
// created there: linking a file fails when the name exists, and a directory cannot
// replace a directory with entries.
func (x *Extractor) rename() error {
	if x.kind == manifest.File && !x.opts.Overwrite {
		err := x.parent.Link(x.tmp, x.base)
		if err == nil {
			return x.wrap(x.parent.Remove(x.tmp))
		}
		if errors.Is(err, fs.ErrExist) {
			return x.conflict()
		}
		// The file system has no hard links.
	}
	if err := x.checkTarget(x.kind == manifest.File && x.opts.Overwrite); err != nil {
		return err
	}
	return x.wrap(x.parent.Rename(x.tmp, x.base))
}

func (x *Extractor) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("extract to %q: %w", x.target, err)
	}
	return nil
}

// Abort removes the sibling, and leaves a file that Move took. It does nothing after a
// successful Commit or another Abort.
func (x *Extractor) Abort() error {
	if x.done {
		return nil
	}
	x.done = true
	x.err = status.Errorf(status.Canceled, "the extraction to %q was aborted", x.target)
	var errs []error
	for _, d := range x.stack {
		errs = append(errs, d.dir.Close())
	}
	x.stack = nil
	if x.begun && !x.adopted {
		errs = append(errs, x.parent.RemoveAll(x.tmp))
	}
	x.unlockTemp()
	return x.wrap(errors.Join(append(errs, x.parent.Close())...))
}

// syncDir makes the names in a directory durable.
func syncDir(r *os.Root, name string) error {
	d, err := r.Open(name)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
