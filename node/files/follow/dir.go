package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"allium/protocols/status"
)

// Dir is a directory that this process follows. It is not safe for concurrent use.
type Dir struct {
	path    string // absolute
	given   string // path as the user named it: "." is no link, whatever the shell calls it
	links   bool   // path may be a symbolic link
	ledgers string // where ledgers are
	now     func() time.Time
	sync    func(*os.File) error // makes what was written durable

	opened
}

// opened is the directory as it was opened.
type opened struct {
	real   string   // path without links
	root   *os.Root // nil: none is open
	held   *os.File // the directory, locked
	ledger string   // file name
	recs   records
	forgot error // why the ledger was not read; nil: it was, or there is none
	staged *staging
}

// Open opens the directory path, and makes it if there is none. Its ledger is below the directory ledgers; if that is
// empty, what updates wrote is forgotten at the end. A path that is no directory is a conflict, and so is a symbolic
// link unless links is true. A directory that another process follows is busy.
func Open(path, ledgers string, links bool) (*Dir, error) {
	given := filepath.Clean(path)
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, given: given, links: links, ledgers: ledgers, now: time.Now, sync: syncAll}
	switch info, err := d.stat(); {
	case errors.Is(err, fs.ErrNotExist):
		err = os.Mkdir(path, 0o755)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, status.Errorf(status.NotFound, "there is no directory %q; create it first", filepath.Dir(path))
		}
		if err != nil {
			return nil, d.failed(err)
		}
	case err != nil:
		return nil, d.failed(err)
	case !info.IsDir():
		return nil, status.Errorf(status.Conflict,
			"%q exists and is no directory: remove it, or follow in another one", path)
	}
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// stat describes what is at the path. A symbolic link is a conflict, unless the directory may be one.
func (d *Dir) stat() (fs.FileInfo, error) {
	if d.links {
		return os.Stat(d.given)
	}
	info, err := os.Lstat(d.given)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return nil, status.Errorf(status.Conflict,
			"%q is a symbolic link: follow in the directory that it leads to, or give --follow-symlink", d.path)
	}
	return info, err
}

// open opens and locks the directory that is there now, and reads its ledger.
func (d *Dir) open() (err error) {
	var o opened
	defer func() {
		if err != nil {
			err = d.failed(errors.Join(err, o.close()))
		}
	}()
	if o.real, err = filepath.EvalSymlinks(d.path); err != nil {
		return err
	}
	if o.root, err = os.OpenRoot(o.real); err != nil {
		return err
	}
	if o.held, err = o.root.Open("."); err != nil {
		return err
	}
	// A file system that has no locks is followed without one.
	if err := flock(o.held); errors.Is(err, syscall.EWOULDBLOCK) {
		return status.Errorf(status.Busy, "another process follows a name in %q already; end it first", d.path)
	}
	if d.ledgers != "" {
		o.ledger = ledgerFile(d.ledgers, o.real)
	}
	o.recs, o.forgot = load(o.ledger, o.real)
	d.opened = o
	return nil
}

// flock locks f until it is closed. It does not wait.
func flock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor fits
}

// unlock ends the lock of f. Closing f is not enough: a process that is being started has its descriptor
// too until it runs its own program.
func unlock(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) //nolint:gosec // it fits; the close that follows unlocks too
}

// Forgot returns why it is not known what earlier updates wrote, and nil if it is known.
func (d *Dir) Forgot() error { return d.forgot }

// check opens the directory again if another one is at its path by now. A path at which nothing is any
// more is not_found.
func (d *Dir) check() error {
	info, err := d.stat()
	if errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(status.NotFound, "%q was removed; make the directory again, or end the command", d.path)
	}
	if err != nil {
		return d.failed(err)
	}
	if d.held != nil {
		if was, err := d.held.Stat(); err == nil && os.SameFile(was, info) {
			return nil
		}
	}
	if !info.IsDir() {
		return status.Errorf(status.Conflict, "%q is no directory any more", d.path)
	}
	old := d.opened
	d.opened = opened{}
	_ = old.close() // it is not the followed directory any more
	return d.open()
}

// Close removes what was fetched and not used, and lets another process follow the directory.
func (d *Dir) Close() error { return d.failed(d.close()) }

func (o *opened) close() error {
	var errs []error
	if o.staged != nil {
		errs = append(errs, o.staged.remove())
		o.staged = nil
	}
	if o.held != nil {
		unlock(o.held)
		errs = append(errs, o.held.Close())
		o.held = nil
	}
	if o.root != nil {
		errs = append(errs, o.root.Close())
		o.root = nil
	}
	return errors.Join(errs...)
}

// failed adds the path to an error of the file system. A directory that the user may not write is
// forbidden. ([status.Of] would return not_ready, the outcome for a node's own files.)
func (d *Dir) failed(err error) error {
	if err == nil {
		return nil
	}
	if status.HasOutcome(err) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return status.Errorf(status.Forbidden, "%s: %w", d.path, err)
	}
	return fmt.Errorf("%s: %w", d.path, err)
}
