//go:build !linux

package blob

import "github.com/cockroachdb/pebble/v2/vfs"

// startWriteback is a hint that this system has no call for.
func startWriteback(vfs.File, int64, int64) {}
