package follow

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"allium/node/files/extract"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// stagingName is the directory, in the followed one, of files that were fetched and are not used yet. It
// is a temporary name as package extract knows them, so that `get --update` removes what a killed process
// left.
const stagingName = ".follow.allium-incoming"

// staging is that directory. Each file in it is named for its content.
type staging struct {
	top    *os.Root // the followed directory, which stays open
	dir    *os.Root
	lock   *os.File        // nil: the file system has no locks
	proved map[string]bool // names of files whose content this process has seen
	made   int             // names that were made up so far
}

// stagingTries bounds how often a staging is made again because `get --update` removes it as a leftover,
// with stagingWait before each.
const (
	stagingTries = 20
	stagingWait  = 10 * time.Millisecond
)

// openStaging opens the staging of a followed directory, and makes it if there is none.
func openStaging(top *os.Root) (s *staging, err error) {
	for range stagingTries {
		if s, err = makeStaging(top); !errors.Is(err, extract.ErrTempTaken) {
			return s, err
		}
		time.Sleep(stagingWait)
	}
	return nil, err
}

func makeStaging(top *os.Root) (s *staging, err error) {
	info, err := top.Lstat(stagingName)
	if err == nil && !info.IsDir() { // nobody else uses the name
		if err = top.Remove(stagingName); err == nil {
			err = fs.ErrNotExist
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		if err = top.Mkdir(stagingName, 0o700); errors.Is(err, fs.ErrExist) {
			return nil, extract.ErrTempTaken
		}
	}
	if err != nil {
		return nil, err
	}
	s = &staging{top: top, proved: map[string]bool{}}
	if s.lock, err = extract.LockTemp(top, stagingName); err != nil {
		return nil, err
	}
	if s.dir, err = extract.OpenBelow(top, stagingName); err != nil {
		s.unlock()
		return nil, err
	}
	return s, nil
}

func (s *staging) unlock() {
	if s.lock != nil {
		_ = s.lock.Close() // nothing was written to it
		s.lock = nil
	}
}

// remove removes the staging with everything in it, and closes it.
func (s *staging) remove() error {
	err := errors.Join(s.dir.Close(), s.top.RemoveAll(stagingName))
	s.unlock()
	return err
}

// unstage removes the staging, also one that an earlier process left.
func (d *Dir) unstage() (err error) {
	if d.staged == nil {
		if _, err := d.root.Lstat(stagingName); err != nil {
			return ignore(err, fs.ErrNotExist)
		}
		if d.staged, err = openStaging(d.root); err != nil {
			return err
		}
	}
	err = d.staged.remove()
	d.staged = nil
	return err
}

// stagedName is the name of the content of e in a staging. Two entries share it if their files are alike.
func stagedName(e manifest.Entry) string {
	if e.Executable {
		return e.Root.Hex() + "x"
	}
	return e.Root.Hex()
}

// keep removes every file whose name is not in names.
func (s *staging) keep(names map[string]int) error {
	f, err := s.dir.Open(".")
	if err != nil {
		return err
	}
	all, err := f.Readdirnames(-1) // at most those of an update, and what is there may be removed
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, name := range all {
		if names[name] == 0 {
			delete(s.proved, name)
			if err := s.dir.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// has reports whether the content of e is here. It reads what an earlier process left.
func (s *staging) has(ctx context.Context, e manifest.Entry) (bool, error) {
	name := stagedName(e)
	if s.proved[name] {
		return true, nil
	}
	info, err := s.dir.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() != e.Size {
		return false, err
	}
	root, err := hashFile(ctx, s.dir, name)
	if err != nil {
		return false, err
	}
	s.proved[name] = root == e.Root
	return s.proved[name], nil
}

// put takes the content of e. r must yield exactly e.Size bytes that hash to e.Root; anything else is
// corrupt, and nothing is kept.
func (s *staging) put(e manifest.Entry, r io.Reader) (err error) {
	mode := fs.FileMode(0o644) // less the umask; nobody else can look into the staging
	if e.Executable {
		mode = 0o755
	}
	tmp := s.unused()
	f, err := s.dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.dir.Remove(tmp))
		}
	}()
	h := b3.NewHasher(nil, 1)
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(r, e.Size+1))
	if err == nil && syncEach {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	root, _, err := h.Sum()
	if err != nil {
		return err
	}
	if n != e.Size || root != e.Root {
		return status.Errorf(status.Corrupt, "the content is not that of %s", e.Root)
	}
	if err = s.dir.Rename(tmp, stagedName(e)); err == nil {
		s.proved[stagedName(e)] = true
	}
	return err
}

// unused returns a name that no file here has.
func (s *staging) unused() string {
	for {
		s.made++
		name := "tmp-" + strconv.Itoa(s.made)
		if _, err := s.dir.Lstat(name); errors.Is(err, fs.ErrNotExist) || err != nil {
			return name
		}
	}
}

// take returns the name of a file with the content of e that is renamed away. If it is needed again, that
// file is a copy.
func (s *staging) take(e manifest.Entry, again bool) (string, error) {
	name := stagedName(e)
	if !again {
		delete(s.proved, name)
		return name, nil
	}
	f, err := s.dir.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	spare := s.unused()
	if err := s.dir.Rename(name, spare); err != nil {
		return "", err
	}
	return spare, s.put(e, f)
}

// hashFile returns the address of the content of a file. It ends with ctx.
func hashFile(ctx context.Context, in *os.Root, name string) (b3.Root, error) {
	f, err := in.Open(name)
	if err != nil {
		return b3.Root{}, err
	}
	defer f.Close()
	h := b3.NewHasher(nil, 1)
	if _, err := h.ReadFrom(interruptible{ctx, f}); err != nil {
		return b3.Root{}, err
	}
	root, _, err := h.Sum()
	return root, err
}

// interruptible is a reader that fails once its context has ended.
type interruptible struct {
	ctx context.Context //nolint:containedctx // it lasts as long as one call
	r   io.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.r.Read(p)
}
