//go:build !linux

package store

// There is no portable way to advise the page cache.

func noReadAhead(file) {}

func pageCached(file, int64) bool { return true }

func dropPages(file, int64, int64) {}
