package extract

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"allium/protocols/manifest"
	"allium/protocols/status"
)

// File writes a file of exactly size bytes from r, with the permissions 0644, or 0755
// when executable (less the umask). Another number of bytes is corrupt.
func (x *Extractor) File(path string, size int64, executable bool, r io.Reader) error {
	return x.FileBy(path, size, executable, func(f *os.File) (bool, error) {
		return false, x.Fill(f, size, r)
	})
}

// FileBy is File with content that write writes. f is empty and open for writing; write does not
// close it. If write returns moved, it has put a file with the content and the permissions of f in
// the place of f.
func (x *Extractor) FileBy(
	path string, size int64, executable bool, write func(f *os.File) (moved bool, err error),
) error {
	return x.do(path, manifest.File, func(dir *os.Root, name string) error {
		f, keep, err := x.create(path, dir, name, executable)
		if err != nil {
			return err
		}
		if path == "" {
			name = x.tmp
		}
		f, err = x.written(dir, name, f, write)
		if err == nil {
			err = hasSize(f, size)
		}
		if err == nil {
			err = keep(f)
		}
		if err == nil && x.opts.Sync {
			err = f.Sync()
		}
		return errors.Join(err, f.Close())
	})
}

// create creates the file of an entry in dir, or the sibling if path is ""; see createBeside.
func (x *Extractor) create(
	path string, dir *os.Root, name string, executable bool,
) (f *os.File, keep func(*os.File) error, err error) {
	if path != "" {
		return createBeside(dir, name, "", executable)
	}
	f, err = x.createTemp(func(tmp string) (f *os.File, err error) {
		f, keep, err = createBeside(dir, tmp, x.replaces(), executable)
		return f, err
	})
	return f, keep, err
}

// written calls write with the file f, and returns the file that then has the name. It closes f if
// that is another one.
func (x *Extractor) written(
	dir *os.Root, name string, f *os.File, write func(f *os.File) (bool, error),
) (*os.File, error) {
	moved, err := write(f)
	if err != nil || !moved {
		return f, err
	}
	now, err := dir.Open(name)
	if err != nil {
		return f, err
	}
	_ = f.Close() // nothing was written to it
	if x.lock == nil {
		return now, nil
	}
	x.unlockTemp()
	x.lock, err = LockTemp(x.parent, x.tmp)
	return now, err
}

// replaces returns the name of the file whose permissions the target gets, or "".
func (x *Extractor) replaces() string {
	if x.opts.KeepMode {
		return x.base
	}
	return ""
}

// Dir creates a directory with the permissions 0755 (less the umask). Entries below it
// may follow.
func (x *Extractor) Dir(path string) error {
	return x.do(path, manifest.Directory, func(parent *os.Root, name string) error {
		if len(x.stack) == manifest.MaxNesting {
			return refuse(path, "more than %d directories inside each other", manifest.MaxNesting)
		}
		mkdir := func(name string) (*os.File, error) { return nil, parent.Mkdir(name, 0o755) }
		var err error
		if path == "" {
			_, err = x.createTemp(mkdir)
			name = x.tmp
		} else {
			_, err = mkdir(name)
		}
		if err != nil {
			return err
		}
		dir, err := parent.OpenRoot(name)
		if err != nil {
			return err
		}
		x.stack = append(x.stack, &openDir{path: path, dir: dir})
		return nil
	})
}

// Symlink records a link that Commit creates. It refuses a link target that could lead
// out of the extraction: an absolute path, more ".." than directories above the link, or
// ".." after a name, because that name could be a link too.
func (x *Extractor) Symlink(path, target string) error {
	return x.do(path, manifest.Link, func(*os.Root, string) error {
		if err := linkProblem(path, target); err != nil {
			return err
		}
		if x.pending += len(path) + len(target); x.pending > manifest.MaxLinkBytes {
			return &manifest.EntryError{Entry: path, Reason: "too many links in one tree", Outcome: status.BodyCap}
		}
		x.links = append(x.links, pendingLink{path: path, target: target})
		return nil
	})
}

// do writes one entry: it finds the open directory of the path, checks the name, and
// calls create with both. It remembers the first error.
func (x *Extractor) do(path string, kind manifest.EntryKind, create func(dir *os.Root, name string) error) error {
	if x.err != nil {
		return x.err
	}
	dir, name, err := x.place(path, kind)
	if err == nil {
		err = create(dir, name)
	}
	if err != nil {
		x.err = x.entryError(path, err)
	}
	return x.err
}

// entryError adds the entry to an error of the operating system or a reader.
func (x *Extractor) entryError(path string, err error) error {
	if path == "" {
		path = x.target
	}
	var e *manifest.EntryError
	switch {
	case errors.As(err, &e):
		return err
	case errors.Is(err, fs.ErrExist):
		return &manifest.EntryError{Entry: path, Reason: "the name is there already",
			Outcome: status.Conflict, Err: err}
	}
	return targetError(path, err)
}

// place returns the open directory of an entry and the name of the entry in it, which is
// "" for the target. It closes the directories that do not contain the entry.
func (x *Extractor) place(path string, kind manifest.EntryKind) (*os.Root, string, error) {
	if path == "" {
		return x.placeTarget(kind)
	}
	if len(path) > manifest.MaxPath {
		return nil, "", refuse(path, "the path has %d bytes, the limit is %d", len(path), manifest.MaxPath)
	}
	above, name := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		above, name = path[:i], path[i+1:]
		if above == "" {
			return nil, "", refuse(path, "the path is absolute")
		}
	}
	if reason := manifest.NameProblem(name); reason != "" {
		return nil, "", refuse(path, "%s", reason)
	}
	i := len(x.stack) - 1
	for i >= 0 && x.stack[i].path != above {
		i--
	}
	if i < 0 {
		return nil, "", refuse(path, "%q is not a directory that is being extracted", above)
	}
	if err := x.leave(i + 1); err != nil {
		return nil, "", err
	}
	d := x.stack[i]
	if !x.opts.AllowCaseCollisions {
		other, err := x.collision(d, name)
		if err != nil {
			return nil, "", err
		}
		if other == name {
			return nil, "", refuse(path, "the name is there twice")
		}
		if other != "" {
			return nil, "", &manifest.EntryError{Entry: path, Outcome: status.Conflict, Reason: fmt.Sprintf(
				"the same name as %q where case is ignored: both are extracted only with --allow-case-collisions",
				other)}
		}
	}
	return d.dir, name, nil
}

// placeTarget is place for the target itself.
func (x *Extractor) placeTarget(kind manifest.EntryKind) (*os.Root, string, error) {
	switch {
	case x.begun:
		return nil, "", refuse(x.target, "the target is there already")
	case kind == manifest.Link:
		return nil, "", refuse(x.target, "a link alone cannot be extracted")
	case kind == manifest.Directory:
		if err := x.checkTarget(false); err != nil {
			return nil, "", err
		}
	}
	x.kind = kind
	return x.parent, "", nil
}

// leave closes the open directories from the n-th on.
func (x *Extractor) leave(n int) error {
	for len(x.stack) > n {
		d := x.stack[len(x.stack)-1]
		x.stack = x.stack[:len(x.stack)-1]
		var err error
		if x.opts.Sync {
			err = syncDir(d.dir, ".")
		}
		if err := errors.Join(err, d.dir.Close()); err != nil {
			return x.entryError(d.path, err)
		}
	}
	return nil
}

// createLinks creates the links. No entry is written after this, so nothing is written
// through a link.
func (x *Extractor) createLinks() error {
	if len(x.links) == 0 {
		return nil
	}
	if err := x.leave(1); err != nil {
		return err
	}
	root := x.stack[0].dir
	for i, l := range x.links {
		if err := root.Symlink(l.target, l.path); err != nil {
			return x.entryError(l.path, err)
		}
		if dir := parentOf(l.path); x.opts.Sync && (i+1 == len(x.links) || parentOf(x.links[i+1].path) != dir) {
			if err := syncDir(root, dir); err != nil {
				return x.entryError(l.path, err)
			}
		}
	}
	return nil
}

// parentOf returns the directory of an entry, "." for the top directory.
func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return "."
}

// Fill copies exactly size bytes from r to f, for the write of FileBy.
func (x *Extractor) Fill(f *os.File, size int64, r io.Reader) error {
	if x.copyBuf == nil {
		x.copyBuf = make([]byte, 64<<10)
	}
	w := &exactWriter{w: f, left: size}
	_, err := io.CopyBuffer(w, r, x.copyBuf)
	if err == nil && w.left > 0 {
		err = status.Errorf(status.Corrupt, "the content ends %d bytes short of its size", w.left)
	}
	return err
}

// hasSize returns corrupt unless f has exactly size bytes.
func hasSize(f *os.File, size int64) error {
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		err = status.Errorf(status.Corrupt, "%d bytes were written, not %d", info.Size(), size)
	}
	return err
}

// exactWriter refuses bytes beyond the size of a file. It hides the file's ReadFrom, so
// that io.CopyBuffer uses the WriteTo of the reader or the given buffer.
type exactWriter struct {
	w    io.Writer
	left int64
}

func (w *exactWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > w.left {
		return 0, status.Errorf(status.Corrupt, "the content is longer than its size")
	}
	n, err := w.w.Write(p)
	w.left -= int64(n)
	return n, err
}
