//go:build !unix

package reading

import "os"

// ownedHere returns false: the system does not tell.
func ownedHere(os.FileInfo) bool { return false }

// sameDevice returns false: the system does not tell.
func sameDevice(_, _ os.FileInfo) bool { return false }

// alike returns false: the system does not tell.
func alike(_, _ os.FileInfo) bool { return false }
