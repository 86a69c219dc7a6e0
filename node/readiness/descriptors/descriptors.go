// Package descriptors shares the file descriptors of the process among the parts of a node.
package descriptors

import (
	"fmt"
	"log/slog"
	"time"

	"allium/node/config"
	"allium/protocols/status"
	"allium/store"
)

const (
	// processFiles is the number of descriptors that a node needs besides connections and
	// the store: for its log, listeners, sockets, the audit log, and the records of
	// discovery with their 64 tables.
	processFiles = 128
	// Least is the lowest limit of open files with which a node starts: it covers
	// processFiles, what the store cannot do without, and a few connections.
	Least = processFiles + 160
	// noDescriptorFor is the time for which a node is not ready after it could not open a
	// file because the process had no descriptor left.
	noDescriptorFor = 10 * time.Second
)

// need is the maximum number of descriptors that one part of the configuration may use.
type need struct {
	key string // the configuration key that sets it; empty: nothing does
	n   int64
}

// needsOf lists the most descriptors that a node with this configuration has open at once. It leaves out processFiles
// and the store's caches of open files.
func needsOf(cfg config.Config) []need {
	needs := []need{{"listen.max_conns", int64(cfg.Listen.MaxConns)}}
	if cfg.Gateway.Listen != "" {
		needs = append(needs, need{"gateway.conns", cfg.Gateway.Conns})
	}
	needs = append(needs, need{"", 2 * cfg.Admin.Conns})
	if cfg.Store.Backend != store.BackendMemory {
		needs = append(needs, need{"store.puts", 2 * cfg.Store.Puts}, need{"", 2 * cfg.Store.Ingests})
	}
	return needs
}

// Need returns the limit of open files with which a node never runs out of descriptors, whatever the configuration
// allows.
func Need(cfg config.Config) int64 {
	total := int64(processFiles + store.MinOpenFiles)
	for _, d := range needsOf(cfg) {
		total += d.n
	}
	return total
}

// Share returns how many of limit descriptors the store's caches of open
// files may use; 0 means the store's own default. The caches get what the
// configuration leaves after connections and transfers. A limit below Least
// is an error. A limit that the configuration could exceed is logged.
func Share(limit int64, cfg config.Config, log *slog.Logger) (int, error) {
	if limit <= 0 { // the system does not tell
		return 0, nil
	}
	if limit < Least {
		return 0, status.Errorf(status.NotReady, "this process may open %d files and a node needs at least %d; "+
			"raise the limit of open files (ulimit -n, LimitNOFILE)", limit, Least)
	}
	need, needs := Need(cfg), needsOf(cfg)
	largest := needs[0]
	for _, d := range needs {
		if d.key != "" && d.n > largest.n {
			largest = d
		}
	}
	left := limit - need + int64(store.MinOpenFiles)
	if left >= int64(store.MaxOpenFiles) {
		return 0, nil
	}
	files := max(int(left), store.MinOpenFiles)
	if left < int64(store.MinOpenFiles) {
		log.Warn("the limit of open files is below what the configuration may need; "+
			"beyond it connections are refused and requests get busy",
			"limit", limit, "need", need, "largest", largest.key, "of_it", largest.n,
			"fix", "raise the limit (ulimit -n, LimitNOFILE) or lower "+largest.key)
	} else {
		log.Info("the caches of open files are smaller than usual, because the limit of open files leaves no more",
			"limit", limit, "caches", files)
	}
	return files, nil
}

// Short reports whether the process had no descriptor left to open a file within noDescriptorFor before now: last is
// when it had none, the zero time for never. Requests that need one get busy meanwhile. what says so, and what helps.
func Short(last, now time.Time) (short bool, what string) {
	short = !last.IsZero() && now.Sub(last) < noDescriptorFor
	return short, fmt.Sprintf("the node had no file descriptor left and answered with busy; "+
		"raise the limit of open files (ulimit -n, LimitNOFILE, now %d) or lower the bounds of connections", Limit())
}
