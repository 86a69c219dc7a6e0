package ram

import (
	"os"
	"runtime"
	"runtime/debug"
)

// The values of GOGC. Go collects first when about 4 MiB × GOGC / 100 are allocated.
const (
	startingGOGC = 400
	usualGOGC    = 100
)

// Starting lets the heap of a process that starts grow to 16 MiB before the first collection. A node that
// starts allocates much of what stays, and collections were a quarter of its work. The usual pace returns
// with that collection, or when the process calls started. A GOGC of the user stays.
func Starting() (started func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(startingGOGC)
	usual := func() { debug.SetGCPercent(usualGOGC) }
	runtime.AddCleanup(new([64]byte), func(f func()) { f() }, usual)
	return usual
}
