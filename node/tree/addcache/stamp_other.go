//go:build !linux && !darwin

package addcache

import "io/fs"

// StampOf: without a change time nothing is recorded.
func StampOf(fs.FileInfo) (Stamp, bool) { return Stamp{}, false }
