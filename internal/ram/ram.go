// Package ram finds out how much memory this process may use, so that the size of
// caches can depend on it.
package ram

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/pbnjay/memory"
)

// fallback is the result of Usable if neither the system nor a limit tells, in bytes.
const fallback = 1 << 30

// Usable returns how many bytes of memory this process may use: the least of
// GOMEMLIMIT, the limits of its cgroup, and what the machine has.
func Usable() int64 {
	total := memory.TotalMemory()
	least := int64(min(total, math.MaxInt64))
	if least <= 0 {
		least = math.MaxInt64
	}
	least = min(least, debug.SetMemoryLimit(-1), cgroup("/"))
	if least == math.MaxInt64 {
		return fallback
	}
	return least
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
