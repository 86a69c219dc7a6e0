package measure

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of /proc: USER_HZ, on every platform that Go runs on.
const tick = time.Second / 100

// Taken is the CPU time that had been used at one moment.
type Taken struct {
	At                  time.Time
	Node, Self, Machine time.Duration
}

// Take reads how much the node, this program and the whole machine have used.
func Take(node *Process) (t Taken, err error) {
	if t.Self, err = OwnCPU(); err != nil {
		return t, err
	}
	if t.Node, err = node.CPU(); err != nil {
		return t, err
	}
	t.Machine, err = machineCPU()
	t.At = time.Now()
	return t, err
}

// OwnCPU returns the CPU time that this program has used so far, user and system.
func OwnCPU() (time.Duration, error) {
	var own syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()), err
}

// Since returns the CPU time that the node has used since from, and that of all
// programs but the node and this one, in percent of the machine's cores.
func (t Taken) Since(from Taken) (node, others float64) {
	all := t.At.Sub(from.At).Seconds() * float64(runtime.NumCPU()) / 100
	used := t.Node - from.Node
	return used.Seconds() / all, max(0, (t.Machine-from.Machine-used-(t.Self-from.Self)).Seconds()/all)
}

// CPU returns the CPU time that the process has used so far, user and system.
func (p *Process) CPU() (time.Duration, error) {
	name := fmt.Sprintf("/proc/%d/stat", p.Cmd.Process.Pid)
	raw, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	// After the program's name, which ends with the last ")", come the state,
	// field 3, and then numbers; utime is field 14, stime 15.
	f := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	return ticks(name, f, 11, 12)
}

// machineCPU returns the CPU time that all programs and the kernel have used since
// the start of the machine.
func machineCPU() (time.Duration, error) {
	const name = "/proc/stat"
	raw, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	// CPU user nice system idle iowait irq softirq steal …
	return ticks(name, strings.Fields(first), 1, 2, 3, 6, 7, 8)
}

// ticks adds the fields up.
func ticks(name string, fields []string, at ...int) (sum time.Duration, err error) {
	for _, i := range at {
		var n int64
		if i >= len(fields) {
			return 0, fmt.Errorf("%s has %d fields", name, len(fields))
		}
		if _, err := fmt.Sscan(fields[i], &n); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += time.Duration(n) * tick
	}
	return sum, nil
}
