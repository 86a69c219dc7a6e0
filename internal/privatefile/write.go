package privatefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Create writes a new file of mode 0600, and its directory (mode 0700) if there is none. It
// returns once both are durable; a crash leaves the whole file or none. A file that exists is
// left as it is and reported as fs.ErrExist.
func Create(name string, p []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return write(name, p, private, func(tmp string) error {
		// Unlike a rename, a link never replaces a file.
		return errors.Join(os.Link(tmp, name), os.Remove(tmp))
	})
}

// Replace replaces the content of a file, or creates it, with mode 0600. It returns once the
// content is durable; after a crash the file has the old or the new content. At no time can
// other users open it.
func Replace(name string, p []byte) error {
	err := write(name, p, private, func(tmp string) error { return os.Rename(tmp, name) })
	if err != nil {
		return fmt.Errorf("replace %s: %w", name, err)
	}
	return nil
}

// Remove removes a file. It returns once that is durable. A file that is not there is no error.
func Remove(name string) error {
	switch err := os.Remove(name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(name))
}

// private leaves the mode of a new file at 0600, which os.CreateTemp gives it.
func private(*os.File) error { return nil }

// write writes p to a temporary file beside name, has own set its owner and its mode, has put
// give it that name, and makes the directory durable.
func write(name string, p []byte, own func(*os.File) error, put func(tmp string) error) (err error) {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // err is returned, and says more
		}
	}()
	_, err = f.Write(p)
	if err = errors.Join(err, own(f), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = put(f.Name()); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes durable which files a directory has.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
