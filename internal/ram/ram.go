// Package ram finds out how much memory this process may use, divides it among the parts of a
// node, and sets Go's memory limit, so that the size of caches and the work of the garbage
// collector depend on it.
package ram

import (
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/pbnjay/memory"

	"allium/internal/limits"
)

// fallback is the result of Usable if neither the system nor a limit tells, in bytes.
const fallback = 1 << 30

// set is the limit that SetLimit set; 0 before.
var set atomic.Int64

// Usable returns how many bytes of memory this process may use, and what says so: the least
// of GOMEMLIMIT, the limits of its cgroup, and what the machine has.
func Usable() (bytes int64, from string) {
	goLimit := debug.SetMemoryLimit(-1)
	if goLimit == set.Load() {
		goLimit = math.MaxInt64
	}
	return usable(goLimit, Cgroup("/"), machine())
}

// usable returns the least of three bounds, and its name; MaxInt64 is no bound.
func usable(goLimit, cgroup, machine int64) (bytes int64, from string) {
	switch least := min(goLimit, cgroup, machine); least {
	case math.MaxInt64:
		return fallback, FromNothing
	case goLimit:
		return least, FromUser
	case machine: // a limit of the cgroup that is as high bounds nothing
		return least, FromMachine
	default:
		return least, FromCgroup
	}
}

// Shares are the bytes of memory that the parts of a node may take. The rest is for requests and for
// the program itself.
type Shares struct {
	Peers   int64 // buffers for what peers send
	Index   int64 // blocks of the index of the store
	Hot     int64 // most of the objects that are kept above the disk
	Objects int64 // of a store in RAM; Divide leaves it 0
}

// Sum returns the bytes of all parts together.
func (s Shares) Sum() int64 { return s.Peers + s.Index + s.Hot + s.Objects }

// Divide returns the shares of a process that may use total bytes. The buffers for peers are a
// quarter, and at least 256 MiB or half of little memory. The index has a 64th from 8 MiB to 64 MiB, as
// the system keeps its files in RAM too, and objects have an eighth, at least 1 MiB.
func Divide(total int64) Shares {
	return Shares{
		Peers: max(total/4, min(256<<20, total/2)),
		Index: min(max(total/64, 8<<20), 64<<20),
		Hot:   max(total/8, 1<<20),
	}
}

// Mine returns the shares of this process.
func Mine() Shares {
	total, _ := Usable()
	return Divide(total)
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
	limit, from = goLimit(Cgroup("/"), machine(), small)
	if from != FromNothing {
		set.Store(limit)
		debug.SetMemoryLimit(limit)
	}
	return limit, from
}

// Limit sets Go's memory limit, see SetLimit, and logs it together with what the process may use and
// what its parts are configured to take. It warns if they may take more than there is.
func Limit(small bool, parts Shares, log *slog.Logger) {
	total, from := Usable()
	limit, limitFrom := SetLimit(small)
	size := func(n int64) string { return limits.Bytes(n).String() }
	log.Info("memory", "usable", size(total), "from", from, "go_limit", size(limit), "go_limit_from", limitFrom,
		"peers", size(parts.Peers), "index_cache", size(parts.Index), "hot_objects", size(parts.Hot),
		"memory_store", size(parts.Objects))
	if sum := parts.Sum(); sum > total {
		log.Warn("the parts of the node may take more memory than there is; lower listen.max_memory, "+
			"store.index_cache, store.hot_bytes or store.memory_bytes", "parts", size(sum), "usable", size(total))
	}
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

// Cgroup returns the lowest memory limit, in bytes, of the cgroups that this process is
// in, or MaxInt64 if there is none. root is the root of the file system.
func Cgroup(root string) int64 {
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
