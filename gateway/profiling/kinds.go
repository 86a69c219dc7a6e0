package profiling

import (
	"io"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"

	"allium/protocols/status"
)

// kind is a profile of the process.
type kind struct {
	name string
	// collect writes the profile to w. It calls wait once, while it collects, unless the profile shows
	// what is now; the error of wait ends it.
	collect func(w io.Writer, wait func() error) error
}

// The sampling of the profiles that are off otherwise.
const (
	mutexFraction  = 10     // one of so many waits for a mutex
	blockRateNanos = 10_000 // one sample for so many nanoseconds of waiting
)

// kinds are the profiles that a client can ask for.
var kinds = []kind{
	{"cpu", cpu},
	{"trace", execution},
	{"heap", now("heap")},
	{"allocs", now("allocs")},
	{"goroutine", now("goroutine")},
	{"mutex", func(w io.Writer, wait func() error) error {
		before := runtime.SetMutexProfileFraction(mutexFraction)
		defer runtime.SetMutexProfileFraction(before)
		return after("mutex", w, wait)
	}},
	{"block", func(w io.Writer, wait func() error) error {
		runtime.SetBlockProfileRate(blockRateNanos)
		defer runtime.SetBlockProfileRate(0)
		return after("block", w, wait)
	}},
}

// kindNames returns the names of kinds.
func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

// kindIndex returns the place of a name in kinds; the router has checked the name.
func kindIndex(name string) int {
	return slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
}

// now returns the collect of a profile that shows what is now.
func now(name string) func(io.Writer, func() error) error {
	return func(w io.Writer, _ func() error) error { return pprof.Lookup(name).WriteTo(w, 0) }
}

// after writes a profile that the process collects while wait runs.
func after(name string, w io.Writer, wait func() error) error {
	if err := wait(); err != nil {
		return err
	}
	return pprof.Lookup(name).WriteTo(w, 0)
}

// cpu collects where the processors spend their time.
func cpu(w io.Writer, wait func() error) error {
	if err := pprof.StartCPUProfile(w); err != nil {
		return errProfiled(err)
	}
	defer pprof.StopCPUProfile()
	return wait()
}

// execution collects an execution trace.
func execution(w io.Writer, wait func() error) error {
	if err := trace.Start(w); err != nil {
		return errProfiled(err)
	}
	defer trace.Stop()
	return wait()
}

// errProfiled says that something else of the process, such as another node in it, collects the same.
func errProfiled(err error) error {
	return status.Errorf(status.Busy,
		"another profile of this process is being made: %w. Try again when it has ended", err)
}
