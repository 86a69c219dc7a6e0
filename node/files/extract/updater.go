package extract

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/blake3"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// UpdateOptions are the options of an update. The zero value is the safest.
type UpdateOptions struct {
	Delete              bool // names that the manifest lacks are removed; a file or link may replace a directory
	AllowCaseCollisions bool // one directory may hold names that differ in case or normalisation only
}

// UpdateStats counts what an update did.
type UpdateStats struct {
	Kept    int64 `json:"kept"`    // files and links that were already right
	Written int64 `json:"written"` // files and links that were created or replaced
	Removed int64 `json:"removed"` // names that were removed, each with everything below it
	Bytes   int64 `json:"bytes"`   // bytes of the written files
}

// Updater changes an existing directory to the content of a manifest. It writes only
// what differs. A file is unchanged when its size and the BLAKE3 of its bytes on disk
// are right. Any other file is written to a temporary sibling and renamed. So each name
// has its old or its new content at any time, and an interrupted update can run again.
// It may leave siblings ".<name>.allium-XXXXXXXX", which the next update removes.
//
// [Updater.Entry] takes the entries in the order of a walk, the directory itself first.
// [Updater.File] takes the contents that Entry needs, at any later time.
// [Updater.Finish] creates the links and ends the update. No name leads outside the
// target: the updater replaces links and never follows them. It is not safe for
// concurrent use. Pair every BeginUpdate with a deferred Close.
type Updater struct {
	opts   UpdateOptions
	target string
	root   *os.Root
	stack  []*updateDir
	pendingLinks
	listing *Listing
	dirs    *Directories // those of the files that are written
	seed    maphash.Seed // of the names in stack
	buf     []byte
	hash    *blake3.Hasher
	stats   UpdateStats
}

// updateDir is a directory that still takes entries.
type updateDir struct {
	path  string
	dir   *os.Root
	named map[uint64]struct{} // hashes of the names in the manifest; nil: nothing is removed
}

// BeginUpdate prepares to update the directory target, and creates it when it does not
// exist. A target that is not a directory is a conflict.
func BeginUpdate(target string, opts UpdateOptions) (*Updater, error) {
	info, err := os.Lstat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.Mkdir(target, 0o755)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, status.Errorf(status.NotFound,
				"cannot extract to %q: there is no directory %q; create it first: %w", target,
				filepath.Dir(target), err)
		}
	case err == nil && !info.IsDir():
		return nil, status.Errorf(status.Conflict,
			"%q exists and is no directory: remove it, or extract to another name", target)
	}
	if err != nil {
		return nil, fmt.Errorf("update %q: %w", target, err)
	}
	root, err := os.OpenRoot(target)
	if err != nil {
		return nil, fmt.Errorf("update %q: %w", target, err)
	}
	return &Updater{
		opts: opts, target: target, root: root,
		listing: NewListing(target, opts.AllowCaseCollisions), dirs: NewDirectories(root), seed: maphash.MakeSeed(),
		buf: make([]byte, 64<<10), hash: blake3.New(),
	}, nil
}

// Stats returns the counts of the update so far.
func (u *Updater) Stats() UpdateStats { return u.stats }

// Entry compares one entry with the disk. It creates a directory at once and a link in
// Finish. need reports whether the caller must pass the content of the file to File.
func (u *Updater) Entry(path string, e manifest.Entry) (need bool, err error) {
	need, err = u.entry(path, e)
	return need, u.wrap(path, err)
}

func (u *Updater) entry(path string, e manifest.Entry) (need bool, err error) {
	if err := u.listing.Check(path, e); err != nil {
		return false, err
	}
	if path == "" {
		dir, err := u.root.OpenRoot(".")
		if err != nil {
			return false, err
		}
		u.descend("", dir)
		return false, nil
	}
	above, name := parentOf(path), path[strings.LastIndexByte(path, '/')+1:]
	if above == "." {
		above = ""
	}
	for u.stack[len(u.stack)-1].path != above {
		if err := u.leave(); err != nil {
			return false, err
		}
	}
	d := u.stack[len(u.stack)-1]
	if d.named != nil {
		d.named[maphash.String(u.seed, name)] = struct{}{}
	}
	info, err := d.dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		info, err = nil, nil
	}
	if err != nil {
		return false, err
	}
	if info != nil && info.IsDir() && e.Kind != manifest.Directory && !u.opts.Delete {
		return false, &manifest.EntryError{Entry: path, Outcome: status.Conflict, Reason: fmt.Sprintf(
			"a directory is in the way of a %s: it is removed only with --delete", e.Kind)}
	}
	switch e.Kind {
	case manifest.Directory:
		return false, u.directory(d.dir, path, name, info)
	case manifest.Link:
		return false, u.link(d.dir, path, name, e.Target, info)
	}
	return u.file(d.dir, path, name, e, info)
}

func (u *Updater) descend(path string, dir *os.Root) {
	sweep(dir)
	d := &updateDir{path: path, dir: dir}
	if u.opts.Delete {
		d.named = map[uint64]struct{}{}
	}
	u.stack = append(u.stack, d)
}

func (u *Updater) directory(in *os.Root, path, name string, info fs.FileInfo) error {
	if info != nil && !info.IsDir() {
		if err := in.Remove(name); err != nil {
			return err
		}
		u.stats.Removed++
		info = nil
	}
	if info == nil {
		if err := in.Mkdir(name, 0o755); err != nil {
			return err
		}
	}
	dir, err := in.OpenRoot(name)
	if err != nil {
		return err
	}
	u.descend(path, dir)
	return nil
}

func (u *Updater) link(in *os.Root, path, name, target string, info fs.FileInfo) error {
	if info != nil && info.Mode()&fs.ModeSymlink != 0 {
		if was, err := in.Readlink(name); err == nil && was == target {
			u.stats.Kept++
			return nil
		}
	}
	if u.pending += len(path) + len(target); u.pending > manifest.MaxLinkBytes {
		return &manifest.EntryError{Entry: path, Reason: "too many links in one tree", Outcome: status.BodyCap}
	}
	u.links = append(u.links, pendingLink{path: path, target: target})
	return nil
}

// file compares a file with the disk. If only the executable bit differs, it writes a
// copy, because a hard link may share the permissions of the old file.
func (u *Updater) file(in *os.Root, path, name string, e manifest.Entry, info fs.FileInfo) (need bool, err error) {
	if info == nil || !info.Mode().IsRegular() || info.Size() != e.Size {
		return true, nil
	}
	f, err := in.Open(name)
	if err != nil {
		return errors.Is(err, fs.ErrPermission), ignore(err, fs.ErrPermission)
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return true, err
	}
	u.hash.Reset()
	if _, err := io.CopyBuffer(u.hash, struct{ io.Reader }{f}, u.buf); err != nil {
		return false, err
	}
	if b3.Root(u.hash.Sum(nil)) != e.Root {
		return true, nil
	}
	if (info.Mode()&0o111 != 0) == e.Executable {
		u.stats.Kept++
		return false, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return false, err
	}
	return false, u.write(in, path, name, e, f)
}

func ignore(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// wrap adds the entry to an error.
func (u *Updater) wrap(path string, err error) error {
	var e *manifest.EntryError
	if err == nil || errors.As(err, &e) {
		return err
	}
	if path == "" {
		path = u.target
	}
	return targetError(path, err)
}
