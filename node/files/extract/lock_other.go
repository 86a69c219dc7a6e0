//go:build !unix

package extract

import "os"

// lock returns false: the system has no locks, so sweep removes nothing.
func lock(*os.File) (bool, error) { return false, nil }
