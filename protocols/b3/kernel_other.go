//go:build !amd64

package b3

// fullGroupCV has no assembly of its own here; guts does the work.
func fullGroupCV(*[GroupSize]byte, uint64) (cv [Size]byte, ok bool) { return cv, false }
