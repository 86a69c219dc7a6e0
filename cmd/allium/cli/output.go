package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"allium/cmd/allium/failure"
	homedir "allium/node/home"
	"allium/node/homefiles"
	"allium/protocols/status"
)

// CheckOutput returns status.Forbidden if a file or directory that is about to be written is in the home
// directory of another user, whose node could not open it.
func CheckOutput(name string) error {
	path, err := RealPath(name)
	if err != nil {
		return err
	}
	home := homefiles.Own{}.Above(filepath.Join(path, "x")) // name may be the home directory itself
	if home == "" || homedir.CheckOwner(home) == nil {
		return nil
	}
	return status.Errorf(status.Forbidden,
		"%s is in %s, the home directory of another user's node, which could not open "+
			"it; name another place", name, home)
}

// CreateOutput makes the file that a flag names, or empties it.
func CreateOutput(flag, name string) (*os.File, error) {
	if err := CheckOutput(name); err != nil {
		return nil, err
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, failure.NewUsage("name a file that can be written with "+flag, "%v", err)
	}
	return f, nil
}

// WriteNewFile writes what r has to a file that only this user may read. It fails if there is one.
func WriteNewFile(file string, r io.Reader) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, r); err != nil {
		_ = f.Close() // the file is removed
		return err
	}
	return f.Close()
}

// RealPath returns the absolute path without links, of as much of it as there is.
func RealPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for top, rest := abs, ""; ; top, rest = filepath.Dir(top), filepath.Join(filepath.Base(top), rest) {
		if to, err := filepath.EvalSymlinks(top); err == nil {
			return filepath.Join(to, rest), nil
		}
		if top == filepath.Dir(top) {
			return abs, nil
		}
	}
}

// ReplaceFile writes content to a file in one step, because a node may read the
// file at the same time.
func ReplaceFile(name string, content []byte) (err error) {
	if err := CheckOutput(name); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".seeds-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the caller gets the first error
		}
	}()
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// CheckNewFile is CheckOutput for a file. It returns not_found if there is no directory for it.
func CheckNewFile(file string) error {
	dir := filepath.Dir(file)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return status.Errorf(status.NotFound, "there is no directory %q; create it first", dir)
	}
	return CheckOutput(file)
}
