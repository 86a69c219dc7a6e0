//go:build !unix

package extract

import "os"

// movable returns false: the system does not tell whether a file is like a new one.
func movable(_, _ os.FileInfo) bool { return false }
