// Package starting lets a process that starts allocate 16 MiB before Go's first garbage collection, instead of 4.
// The variables of all packages take most of those 4, so each command paid for one collection of what stays, and a
// node that starts for several: a quarter of its work.
//
// It takes effect when it is initialized. Of the packages whose imports are initialized, Go takes the one with the
// first import path (The Go Programming Language Specification, "Program initialization", and the release notes of
// Go 1.21), so this one comes before those of other modules, which have longer names and more imports.
package starting

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

// End brings the usual pace of collections back. The first collection does so too. A GOGC of the user always stays.
var End = begin()

func begin() (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	debug.SetGCPercent(startingGOGC)
	usual := func() { debug.SetGCPercent(usualGOGC) }
	runtime.AddCleanup(new([64]byte), func(f func()) { f() }, usual)
	return usual
}
