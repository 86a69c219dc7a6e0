// Package privatefile reads and writes files with secrets, such as keys. It refuses those that
// other users of the machine can open, and writes none that they could.
package privatefile

import (
	"fmt"
	"io"
	"io/fs"
	"os"

	"allium/protocols/status"
)

// The permissions of other users that a caller may refuse.
const (
	NoAccess fs.FileMode = 0o077 // other users may neither read nor write it
	NoWrites fs.FileMode = 0o022 // other users may read it
)

// Read returns at most limit+1 bytes of a file, never nil. More than limit bytes tell the caller that the file is too
// long. A file that does not exist is fs.ErrNotExist. A name of another kind of file is status.Corrupt. A file that
// grants other users a permission in refused is status.Forbidden. The errors name the file and the remedy.
func Read(name string, limit int64, refused fs.FileMode) ([]byte, error) {
	info, err := os.Stat(name) // opening a pipe would block
	if err != nil {
		return nil, err
	}
	switch mode := info.Mode(); {
	case !mode.IsRegular():
		return nil, status.Errorf(status.Corrupt, "%s is not a regular file: move it away", name)
	case mode.Perm()&refused != 0:
		return nil, status.Errorf(status.Forbidden,
			"%s is open to other users (mode %04o); run chmod 600 %s, and replace the keys in it if somebody may have "+
				"read them", name, mode.Perm(), name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return p, nil
}
