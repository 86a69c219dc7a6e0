//go:build !unix

package client

import "io/fs"

// owner is not known here.
func owner(fs.FileInfo) (uid int, known bool) { return 0, false }
