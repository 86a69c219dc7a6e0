//go:build !unix

package api

// readOnly reports false: read-only file systems are not recognized on this system.
func readOnly(string) bool { return false }
