//go:build !unix

package api

import "io/fs"

// owner reports that the owner of a file is unknown on this system.
func owner(fs.FileInfo) (uid int, known bool) { return 0, false }

// readOnly reports false: read-only file systems are not recognized on this system.
func readOnly(string) bool { return false }
