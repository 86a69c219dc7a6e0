//go:build !linux

package scrub

import "allium/store/meta"

// There is no portable way to advise the page cache.

func noReadAhead(meta.File) {}

func pageCached(meta.File, int64) bool { return true }

func dropPages(meta.File, int64, int64) {}
