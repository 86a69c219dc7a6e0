package doctor

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The bounds of a look at all processes.
const (
	maxProcesses   = 1 << 14
	maxDescriptors = 1 << 12 // of one process
)

// process is a process of this machine.
type process struct {
	pid     int
	command string
}

// processes lists the processes of this machine but this one.
func (m Machine) processes() ([]process, error) {
	dir, err := os.Open(filepath.Join(m.Root, "proc"))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxProcesses)
	var all []process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid != os.Getpid() {
			command, _ := m.read(filepath.Join("proc", name, "comm")) // it may have ended
			all = append(all, process{pid, command})
		}
	}
	if len(all) > 0 {
		err = nil
	}
	return all, err
}

// open calls look with what each descriptor of a process is, until it returns false. Those of other users cannot be
// read, and are left out.
func (m Machine) open(p process, look func(fd, target string) bool) {
	dir := filepath.Join(m.Root, "proc", strconv.Itoa(p.pid), "fd")
	f, err := os.Open(dir)
	if err != nil {
		return
	}
	defer f.Close()
	names, _ := f.Readdirnames(maxDescriptors) // those before an error count
	for _, name := range names {
		if target, err := os.Readlink(filepath.Join(dir, name)); err == nil && !look(name, target) {
			return
		}
	}
}

// users returns the processes that have a file below dir open for writing.
func (m Machine) users(ctx context.Context, dir string) ([]process, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	all, err := m.processes()
	var users []process
	for _, p := range all {
		if ctx.Err() != nil {
			break
		}
		m.open(p, func(fd, target string) bool {
			if !strings.HasPrefix(target, dir+"/") || !m.writes(p, fd) {
				return true
			}
			users = append(users, p)
			return false
		})
	}
	return users, err
}

// writes reports whether a descriptor is open for writing.
func (m Machine) writes(p process, fd string) bool {
	info, err := m.read(filepath.Join("proc", strconv.Itoa(p.pid), "fdinfo", fd))
	for line := range strings.Lines(info) {
		if flags, ok := strings.CutPrefix(line, "flags:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(flags), 8, 64)
			return err == nil && n&0o3 != 0 // O_WRONLY or O_RDWR
		}
	}
	return err == nil && info == ""
}

// holder returns which process has a port, in words, or "" if that cannot be known.
func (m Machine) holder(network string, port uint16) string {
	var inodes []string
	for _, table := range []string{network, network + "6"} {
		text, _ := m.read(filepath.Join("proc/net", table)) // a kernel without IPv6 has no second one
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) < 10 {
				continue
			}
			const listening, unconnected = "0A", "07" // of TCP, and of UDP
			if at, ok := socketPort(f[1]); ok && at == port && (f[3] == listening || f[3] == unconnected) {
				inodes = append(inodes, "socket:["+f[9]+"]")
			}
		}
	}
	if len(inodes) == 0 {
		return ""
	}
	all, _ := m.processes() // those that can be read
	for _, p := range all {
		found := false
		m.open(p, func(_, target string) bool {
			found = slices.Contains(inodes, target)
			return !found
		})
		if found {
			return fmt.Sprintf("%s (process %d)", p.command, p.pid)
		}
	}
	return ""
}

// socketPort returns the port of an address in /proc/net/tcp, such as 0100007F:1F90.
func socketPort(addr string) (uint16, bool) {
	_, text, ok := strings.Cut(addr, ":")
	raw, err := hex.DecodeString(text)
	if !ok || err != nil || len(raw) != 2 {
		return 0, false
	}
	return uint16(raw[0])<<8 | uint16(raw[1]), true
}

// portOf returns the port of host:port, false if it has none or any free one is meant.
func portOf(addr string) (uint16, bool) {
	_, text, ok := strings.Cut(addr, "]:")
	if !ok {
		_, text, ok = strings.Cut(addr, ":")
	}
	if at, err := netip.ParseAddrPort(addr); err == nil {
		return at.Port(), at.Port() != 0
	}
	n, err := strconv.ParseUint(text, 10, 16)
	return uint16(n), ok && err == nil && n != 0
}
