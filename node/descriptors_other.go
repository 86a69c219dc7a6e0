//go:build !unix

package node

// fileLimit returns 0: this system has no limit of open descriptors to read.
func fileLimit() int64 { return 0 }
