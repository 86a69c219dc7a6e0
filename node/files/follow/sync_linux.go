package follow

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncEach says that each file is made durable when it is written.
const syncEach = false

// syncAll makes everything on the file system of dir durable.
func syncAll(dir *os.File) error {
	return unix.Syncfs(int(dir.Fd())) //nolint:gosec // a descriptor fits
}
