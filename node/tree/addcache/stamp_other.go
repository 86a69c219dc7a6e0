//go:build !linux && !darwin

package addcache

import "io/fs"

// stampOf: without a change time nothing is recorded.
func stampOf(fs.FileInfo) (stamp, bool) { return stamp{}, false }
