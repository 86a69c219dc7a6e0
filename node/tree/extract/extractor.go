// Package extract writes files and directories to disk so that a hostile manifest
// reaches nothing outside its target and the target is never partial.
//
// An [Extractor] makes a new file or directory, which appears complete or not at
// all; an [Updater] brings an existing directory to what a manifest says, file by
// file.
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

// Options are the choices of an extraction; the zero value is the safe
// one.
type Options struct {
	Overwrite           bool // a file may replace an existing regular file
	KeepMode            bool // a file that is replaced keeps its permissions but for the executable bit
	AllowCaseCollisions bool // one directory may hold names that differ in case or normalisation only
	Sync                bool // files and directories are synced to disk before Commit returns
}

// Extractor writes one file or one directory tree. Everything goes to a
// sibling of the target, ".<name>.allium-XXXXXXXX", that Commit renames into
// place: what is at the target is never partial, also after a crash. It is locked
// while it is written; Begin removes what a process that was killed left in the
// same directory.
//
// Paths are slash-separated and relative to the target; "" is the target
// itself and comes first. The entries of a directory follow it before anything
// outside it does (depth first; any order inside a directory). Files and
// directories are created new, each in the open directory that holds it, so
// neither a path nor a link can lead outside the target. Links are created
// last, by Commit, and only those that stay inside.
//
// The first error ends the extraction: later calls return it and Commit
// refuses. Refusals are [*EntryError] and name the entry. An Extractor is not
// safe for concurrent use. Pair every Begin with a deferred Abort.
type Extractor struct {
	opts   Options
	target string // as given, for messages
	parent *os.Root
	base   string // its name in parent
	temporary

	kind  manifest.EntryKind // of the target, once begun
	stack []*openDir
	pendingLinks
	fold    *folder
	copyBuf []byte
	err     error // sticky
	done    bool  // committed or aborted
}

// temporary is what is written until it is renamed to the target.
type temporary struct {
	tmp   string   // its name in parent
	begun bool     // it exists
	lock  *os.File // of it; may be nil
}

// pendingLinks are the links that are made after everything else.
type pendingLinks struct {
	links   []pendingLink
	pending int // bytes of their paths and targets
}

// openDir is a directory that still takes entries: at most MaxNesting at a
// time, each with a descriptor.
type openDir struct {
	path  string
	dir   *os.Root
	names nameSet
}

type pendingLink struct{ path, target string }

// Begin prepares to write target, whose parent directory exists and which does
// not itself exist, or is a regular file and may be overwritten; otherwise the
// outcome is conflict. Nothing is written before the first entry.
func Begin(target string, opts Options) (*Extractor, error) {
	dir, base := filepath.Split(filepath.Clean(target))
	if base == "" || base == "." || base == ".." {
		return nil, status.Errorf(status.BadRequest, "manifest: cannot extract to %q: name a file or directory to create", target)
	}
	if dir == "" {
		dir = "."
	}
	parent, err := os.OpenRoot(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, status.Errorf(status.NotFound, "manifest: cannot extract to %q: create the directory %q first: %w", target, dir, err)
		}
		return nil, fmt.Errorf("manifest: extract to %q: %w", target, err)
	}
	x := &Extractor{opts: opts, target: target, parent: parent, base: base, temporary: temporary{tmp: tempName(base)}, fold: newFolder()}
	if err := x.checkTarget(opts.Overwrite); err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	sweep(parent)
	return x, nil
}

// hold locks tmp, which was just made, so that nobody takes it for a leftover.
func (x *Extractor) hold() (err error) {
	x.lock, err = lockTemp(x.parent, x.tmp)
	return err
}

// unhold ends that.
func (x *Extractor) unhold() {
	if x.lock != nil {
		_ = x.lock.Close() // it was opened to be locked
		x.lock = nil
	}
}

// tempName is hidden, recognisable and short enough for any base.
func tempName(base string) string {
	if most := manifest.MaxName - len(".") - len(tempMark) - tempRandom; len(base) > most {
		base = base[:most]
	}
	return "." + base + tempMark + strings.ToLower(rand.Text()[:tempRandom])
}

// checkTarget returns a conflict when something is in the way at the target.
func (x *Extractor) checkTarget(overwrite bool) error {
	fi, err := x.parent.Lstat(x.base)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("manifest: extract to %q: %w", x.target, err)
	case overwrite && fi.Mode().IsRegular():
		return nil
	}
	return x.conflict()
}

func (x *Extractor) conflict() error {
	return status.Errorf(status.Conflict, "manifest: %q exists: remove it, or extract to another name", x.target)
}

// Commit creates the links and renames what was extracted to the target. On an
// error the target is as it was before, or complete but perhaps not durable;
// Abort then removes the rest.
func (x *Extractor) Commit() error {
	switch {
	case x.done:
		return status.Errorf(status.Internal, "manifest: the extraction to %q has ended", x.target)
	case x.err == nil && !x.begun:
		x.err = status.Errorf(status.Internal, "manifest: nothing was extracted to %q", x.target)
	case x.err == nil:
		x.err = x.commit()
	}
	if x.err != nil {
		return x.err
	}
	x.done = true
	x.unhold()
	if err := x.parent.Close(); err != nil {
		return fmt.Errorf("manifest: extract to %q: %w", x.target, err)
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

// rename moves tmp to the target. Nothing that came to be there meanwhile is
// lost: a file is linked, which fails when the name is taken; a directory
// cannot replace one that is not empty.
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
		return fmt.Errorf("manifest: extract to %q: %w", x.target, err)
	}
	return nil
}

// Abort removes what was written. After Commit succeeded, and the second time,
// it does nothing.
func (x *Extractor) Abort() error {
	if x.done {
		return nil
	}
	x.done = true
	x.err = status.Errorf(status.Canceled, "manifest: the extraction to %q was aborted", x.target)
	var errs []error
	for _, d := range x.stack {
		errs = append(errs, d.dir.Close())
	}
	x.stack = nil
	if x.begun {
		errs = append(errs, x.parent.RemoveAll(x.tmp))
	}
	x.unhold()
	return x.wrap(errors.Join(append(errs, x.parent.Close())...))
}

// syncDir makes the names in a directory durable.
func syncDir(r *os.Root, name string) error {
	d, err := r.Open(name)
	if err != nil {
		return fmt.Errorf("manifest: sync: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}
