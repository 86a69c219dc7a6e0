//go:build !linux && !darwin

package addcache

import "io/fs"

// StampOf returns ok false: without a change time the cache records nothing.
func StampOf(fs.FileInfo) (Stamp, bool) { return Stamp{}, false }
