package measure

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// KernelTCP returns the kernel's TcpExt counters by name, those of the accept queues of the whole machine among them.
func KernelTCP() (map[string]int64, error) {
	const file = "/proc/net/netstat"
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(raw), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		if len(names) == 0 || names[0] != "TcpExt:" || len(names) != len(values) {
			continue
		}
		all := map[string]int64{}
		for j := 1; j < len(names); j++ {
			var v int64
			if _, err := fmt.Sscan(values[j], &v); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all[names[j]] = v
		}
		return all, nil
	}
	return nil, errors.New(file + " has no TcpExt")
}

// LoadAverage is the machine's of the last minute: how many wanted to run.
func LoadAverage() (v float64, err error) {
	raw, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(raw), &v)
	}
	return v, err
}
