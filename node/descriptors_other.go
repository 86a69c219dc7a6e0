//go:build !unix

package node

// fileLimit is how many descriptors this process may have open: here there is
// no such limit.
func fileLimit() int64 { return 0 }
