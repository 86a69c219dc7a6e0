package main

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

// taken is the CPU time that had been used at one moment.
type taken struct {
	at                  time.Time
	node, self, machine time.Duration
}

// take reads how much the node, this program and the whole machine have used.
func take(node *process) (t taken, err error) {
	if t.self, err = ownCPU(); err != nil {
		return t, err
	}
	if t.node, err = node.cpu(); err != nil {
		return t, err
	}
	t.machine, err = machineCPU()
	t.at = time.Now()
	return t, err
}

// ownCPU returns the CPU time that this program has used so far, user and system.
func ownCPU() (time.Duration, error) {
	var own syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &own)
	return time.Duration(own.Utime.Nano() + own.Stime.Nano()), err
}

// since returns the CPU time that the node has used since from, and that of all
// programs but the node and this one, in percent of the machine's cores.
func (t taken) since(from taken) (node, others float64) {
	all := t.at.Sub(from.at).Seconds() * float64(runtime.NumCPU()) / 100
	used := t.node - from.node
	return used.Seconds() / all, max(0, (t.machine-from.machine-used-(t.self-from.self)).Seconds()/all)
}

// cpu returns the CPU time that the process has used so far, user and system.
func (p *process) cpu() (time.Duration, error) {
	name := fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)
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
	// cpu user nice system idle iowait irq softirq steal …
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
