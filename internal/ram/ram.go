// Package ram finds out how much memory this process may use, and sets Go's memory limit,
// so that the size of caches and the work of the garbage collector can depend on it.
package ram

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/pbnjay/memory"
)

// fallback is the result of Usable if neither the system nor a limit tells, in bytes.
const fallback = 1 << 30

// set is the limit that SetLimit set; 0 before.
var set atomic.Int64

// Usable returns how many bytes of memory this process may use: the least of
// GOMEMLIMIT, the limits of its cgroup, and what the machine has.
func Usable() int64 {
	least := min(machine(), cgroup("/"))
	if goLimit := debug.SetMemoryLimit(-1); goLimit != set.Load() {
		least = min(least, goLimit)
	}
	if least == math.MaxInt64 {
		return fallback
	}
	return least
}

// machine returns the memory of the machine in bytes, or MaxInt64 if it is not known.
func machine() int64 {
	if total := memory.TotalMemory(); total > 0 && total < math.MaxInt64 {
		return int64(total)
	}
	return math.MaxInt64
}

// The limits that SetLimit tells apart.
const (
	FromUser    = "GOMEMLIMIT"
	FromCgroup  = "cgroup"
	FromMachine = "machine"
	FromNothing = "none"
)

// SetLimit sets Go's memory limit, near which the garbage collector works harder: nine
// tenths of the limit of the cgroup, or of what the machine has, if that is less, three
// quarters, and half on a small machine, which others use too. A GOMEMLIMIT of the user
// stays. It returns the limit in bytes and what it comes from.
func SetLimit(small bool) (limit int64, from string) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return debug.SetMemoryLimit(-1), FromUser
	}
	limit, from = goLimit(cgroup("/"), machine(), small)
	if from != FromNothing {
		set.Store(limit)
		debug.SetMemoryLimit(limit)
	}
	return limit, from
}

// goLimit returns the limit for a process in a cgroup on a machine; MaxInt64 is no bound.
func goLimit(cgroup, machine int64, small bool) (limit int64, from string) {
	shared := machine / 4 * 3
	if small {
		shared = machine / 2
	}
	switch alone := cgroup / 10 * 9; {
	case cgroup == math.MaxInt64 && machine == math.MaxInt64:
		return math.MaxInt64, FromNothing
	case alone < shared:
		return alone, FromCgroup
	}
	return shared, FromMachine
}

// Share returns 1/part of the usable memory, but at least least and at most most bytes.
func Share(part, least, most int64) int64 { return min(max(Usable()/part, least), most) }

// cgroup returns the lowest memory limit, in bytes, of the cgroups that this process is
// in, or MaxInt64 if there is none. root is the root of the file system.
func cgroup(root string) int64 {
	least := int64(math.MaxInt64)
	list, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(list)) {
		// hierarchy:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		dir, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			dir, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
			if !strings.Contains(","+parts[1]+",", ",memory,") {
				continue
			}
		}
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			if n, ok := limit(path.Join(root, dir, at, file)); ok {
				least = min(least, n)
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}

// limit reads a file with a number of bytes. It returns false if the file cannot be
// read, or has "max".
func limit(file string) (int64, bool) {
	v, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(v)), 10, 64)
	return n, err == nil && n > 0
}
