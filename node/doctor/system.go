package doctor

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"allium/internal/limits"
	"allium/internal/ram"
	"allium/node/p2p"
	"allium/node/readiness/descriptors"
)

func checkOpenFiles(_ context.Context, e *exam) result {
	limit := e.Machine.OpenFiles()
	if n := e.node.health.value.Process.OpenFiles; n > 0 {
		limit = n
	}
	need := descriptors.Need(e.Config.Config)
	const fix = "raise the limit of open files (ulimit -n, LimitNOFILE=), or lower listen.max_conns and gateway.conns"
	seen := say("a process may have %d files open, and the configuration may need %d", limit, need)
	switch {
	case limit <= 0:
		return skip("this system does not tell")
	case limit < descriptors.Least:
		return fail(seen, "the node does not start", fix)
	case limit < need:
		return warn(seen, "under load connections are refused and requests get busy", fix)
	}
	return result{}
}

// The lengths of the kernel's queue of new connections: fewer are noticed, and far fewer hurt.
const (
	fewBacklog  = 1024
	poorBacklog = 128
)

func checkBacklog(_ context.Context, e *exam) result {
	n, skipped := e.Machine.kernelNumber("proc/sys/net/core/somaxconn")
	if skipped != nil {
		return *skipped
	}
	const fix = "sysctl -w net.core.somaxconn=4096, and write it to /etc/sysctl.d"
	seen := say("net.core.somaxconn is %d", n)
	const impact = "when many connect at once, the kernel drops some of them"
	switch {
	case n < poorBacklog:
		return warn(seen, impact, fix)
	case n < fewBacklog:
		return note(seen, impact, fix)
	}
	return result{}
}

// quicBuffer is the size in bytes of the UDP buffers that quic-go asks for.
const quicBuffer = 7_500_000

func checkBuffers(_ context.Context, e *exam) result {
	if !slices.ContainsFunc(e.Config.Listen.Listen, p2p.IsQUIC) && e.profile() != p2p.Client {
		return skip("the node does not listen on QUIC")
	}
	r, skipped := e.Machine.kernelNumber("proc/sys/net/core/rmem_max")
	if skipped != nil {
		return *skipped
	}
	w, skipped := e.Machine.kernelNumber("proc/sys/net/core/wmem_max")
	if skipped != nil {
		return *skipped
	}
	if min(r, w) >= quicBuffer {
		return result{}
	}
	return note(say("net.core.rmem_max is %d and net.core.wmem_max is %d; QUIC wants %d", r, w, quicBuffer),
		"under load the kernel drops packets, and transfers over QUIC are slower",
		"sysctl -w net.core.rmem_max=7500000 net.core.wmem_max=7500000, and write it to /etc/sysctl.d")
}

// The sizes of memory in bytes that are little for a node.
const (
	littleMemory = 192 << 20 // to run at all
	littleLeft   = 64 << 20  // that is available on the machine
)

func checkMemory(_ context.Context, e *exam) result {
	info, err := e.Machine.read("proc/meminfo")
	if err != nil {
		return skip("/proc/meminfo cannot be read")
	}
	total, available := meminfo(info, "MemTotal"), meminfo(info, "MemAvailable")
	group := ram.Cgroup(e.Machine.Root)
	size := func(n int64) plain { return plain(limits.Bytes(n).Human()) }
	goLimit := e.node.health.value.Process.MemoryLimit
	switch {
	case group < math.MaxInt64 && goLimit > group:
		return warn(say("the cgroup of this process may use %s, and Go's memory limit is %s", size(group),
			size(goLimit)),
			"the kernel kills the node before Go's collector works harder",
			"lower GOMEMLIMIT below MemoryMax= (or the container's limit), or leave it out: the node sets it itself")
	case group < littleMemory:
		return warn(say("the cgroup of this process may use %s", size(group)),
			"the kernel may kill the node under load",
			"raise MemoryMax= (or the container's limit) to 256 MiB or more, or use the profile pi")
	case total > 0 && total < littleMemory:
		return warn(say("this machine has %s of memory", size(total)), "the kernel may kill the node under load",
			"use the profile pi, or a larger machine")
	case available >= 0 && available < littleLeft:
		return warn(say("%s of memory are available of %s", size(available), size(total)),
			"the machine swaps or kills processes",
			"end other programs, or lower store.hot_bytes and listen.max_memory")
	}
	return result{}
}

// meminfo returns a line of /proc/meminfo in bytes, or -1.
func meminfo(text, name string) int64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == name+":" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return n << 10
			}
		}
	}
	return -1
}

// memoryLocked is the word in the version of a node that has locked its memory.
const memoryLocked = "memory locked"

func checkSwap(_ context.Context, e *exam) result {
	if !e.amnesia() {
		return skip("the node keeps its data on disk")
	}
	swaps, err := e.Machine.read("proc/swaps")
	switch {
	case err != nil:
		return skip("/proc/swaps cannot be read")
	case strings.Count(swaps, "\n") == 0, e.node.version.value.Amnesia == memoryLocked:
		return result{}
	}
	return warn(say("this machine swaps, and the memory of the node is not locked"),
		"what the node keeps in RAM alone may be written to disk",
		"swapoff -a, or let the node lock its memory (LimitMEMLOCK=infinity); see docs/running/amnesia.md")
}
