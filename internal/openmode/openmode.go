// Package openmode tells how a file was opened: another process may have opened it and passed it here.
package openmode

import "os"

// Mode says for what a file is open.
type Mode struct{ Read, Write, Append bool }

// modeOf returns the Mode of flags as os.OpenFile takes them.
func modeOf(flags int) Mode {
	access := flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
	return Mode{
		Read: access != os.O_WRONLY, Write: access != os.O_RDONLY, Append: flags&os.O_APPEND != 0,
	}
}
