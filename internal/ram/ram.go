// Package ram tells how much memory this process may use, so that caches can be
// sized by it.
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

// fallback is the answer where nothing tells.
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

// Share returns the given part of the usable memory, within bounds.
func Share(part, least, most int64) int64 { return min(max(Usable()/part, least), most) }

// cgroup returns the lowest memory limit of the groups that this process is in,
// MaxInt64 for none. root is the root of the file system.
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

// limit reads a file that has a number of bytes, or "max".
func limit(file string) (int64, bool) {
	v, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(v)), 10, 64)
	return n, err == nil && n > 0
}
