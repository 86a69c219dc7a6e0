//go:build !amd64

package b3

// fullGroupCV returns false: there is no assembly for this architecture.
func fullGroupCV(*[GroupSize]byte, uint64) (cv [Size]byte, ok bool) { return cv, false }
