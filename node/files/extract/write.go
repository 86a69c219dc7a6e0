package extract

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// File writes the content of an entry that Entry needs. r must yield exactly e.Size bytes
// that hash to e.Root. Anything else is corrupt and leaves the old file in place.
func (u *Updater) File(path string, e manifest.Entry, r io.Reader) error {
	in, name, err := u.dirs.Of(path)
	if err == nil {
		err = u.write(in, path, name, e, r)
	}
	return u.wrap(path, err)
}

// write writes a file to a temporary sibling of name and renames it to name.
func (u *Updater) write(in *os.Root, path, name string, e manifest.Entry, r io.Reader) (err error) {
	var keep func(*os.File) error
	t, err := createTemp(in, name, func(tmp string) (f *os.File, err error) {
		f, keep, err = createBeside(in, tmp, name, e.Executable)
		return f, err
	})
	if err != nil {
		return err
	}
	f, tmp := t.file, t.name
	defer func() {
		if err != nil {
			err = errors.Join(err, ignore(in.Remove(tmp), fs.ErrNotExist))
		}
	}()
	if t.lock != nil {
		defer t.lock.Close() // after the rename
	}
	u.hash.Reset()
	w := &exactWriter{w: io.MultiWriter(f, u.hash), left: e.Size}
	_, err = io.CopyBuffer(w, struct{ io.Reader }{r}, u.buf)
	if err == nil && (w.left > 0 || b3.Root(u.hash.Sum(nil)) != e.Root) {
		err = status.Errorf(status.Corrupt, "the content is not that of %s", e.Root)
	}
	if err == nil {
		err = keep(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := u.replace(in, path, tmp, name); err != nil {
		return err
	}
	u.stats.Written++
	u.stats.Bytes += e.Size
	return nil
}

// createBeside creates the file tmp, with the permissions 0644, or 0755 when executable
// (less the umask). If name is a regular file that tmp will replace, keep gives the file
// tmp the permissions of name; only the executable bit comes from executable. An empty
// name replaces nothing.
func createBeside(
	in *os.Root, tmp, name string, executable bool,
) (f *os.File, keep func(f *os.File) error, err error) {
	mode := fs.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	keep = func(*os.File) error { return nil }
	if name == "" {
		f, err = in.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		return f, keep, err
	}
	if info, err := in.Lstat(name); err == nil && info.Mode().IsRegular() {
		kept := KeptMode(info.Mode(), executable)
		mode = 0o600 // until keep runs, nobody else may read the content
		keep = func(f *os.File) error { return f.Chmod(kept) }
	}
	f, err = in.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	return f, keep, err
}

// KeptMode returns the permissions of a file that replaces one with the mode was. When
// it becomes executable, everyone who may read it may execute it.
func KeptMode(was fs.FileMode, executable bool) fs.FileMode {
	perm := was.Perm()
	switch {
	case !executable:
		return perm &^ 0o111
	case perm&0o111 != 0:
		return perm
	}
	return perm | perm&0o444>>2
}

// replace renames tmp to name. It removes a directory at name only with opts.Delete.
func (u *Updater) replace(in *os.Root, path, tmp, name string) error {
	info, err := in.Lstat(name)
	if err == nil && info.IsDir() {
		if !u.opts.Delete {
			return &manifest.EntryError{
				Entry: path, Outcome: status.Conflict,
				Reason: "a directory is in the way: it is removed only with --delete",
			}
		}
		if err := in.RemoveAll(name); err != nil {
			return err
		}
		u.stats.Removed++
	}
	return in.Rename(tmp, name)
}

// Finish closes the directories, removes the names that the manifest lacks (with
// opts.Delete), and creates the links. Call it after the last File.
func (u *Updater) Finish() error {
	for len(u.stack) > 0 {
		if err := u.leave(); err != nil {
			return err
		}
	}
	for _, l := range u.links {
		in, name, err := u.dirs.Of(l.path)
		if err == nil {
			err = u.symlink(in, l, name)
		}
		if err != nil {
			return u.wrap(l.path, err)
		}
	}
	return nil
}

func (u *Updater) symlink(in *os.Root, l pendingLink, name string) error {
	tmp := tempName(name)
	if err := in.Symlink(l.target, tmp); err != nil {
		return err
	}
	if err := u.replace(in, l.path, tmp, name); err != nil {
		return errors.Join(err, in.Remove(tmp))
	}
	u.stats.Written++
	return nil
}

// Close closes all directories. It does not undo the update.
func (u *Updater) Close() error {
	var errs []error
	for _, d := range u.stack {
		errs = append(errs, d.dir.Close())
	}
	u.stack = nil
	u.dirs.Close()
	return errors.Join(append(errs, u.root.Close())...)
}

// leave closes the innermost directory, after it removed names with opts.Delete.
func (u *Updater) leave() error {
	d := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	var err error
	if d.named != nil {
		err = u.prune(d)
	}
	return u.wrap(d.path, errors.Join(err, d.dir.Close()))
}

// pruneNames bounds the names that are removed between two readings of a directory.
const pruneNames = 4096

// prune removes the names of d that the manifest lacks.
func (u *Updater) prune(d *updateDir) error {
	for {
		extra, err := u.unnamed(d)
		if err != nil || len(extra) == 0 {
			return err
		}
		for _, name := range extra {
			if err := d.dir.RemoveAll(name); err != nil {
				return fmt.Errorf("remove %q: %w", name, err)
			}
			u.stats.Removed++
		}
	}
}

func (u *Updater) unnamed(d *updateDir) (extra []string, err error) {
	f, err := d.dir.Open(".")
	if err != nil {
		return nil, err
	}
	for err == nil && len(extra) < pruneNames {
		var names []string
		names, err = f.Readdirnames(256)
		for _, name := range names {
			if _, ok := d.named[maphash.String(u.seed, name)]; !ok {
				extra = append(extra, name)
			}
		}
	}
	return extra, errors.Join(ignore(err, io.EOF), f.Close())
}
