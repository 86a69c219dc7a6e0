package node

import (
	"fmt"
	"log/slog"
	"time"

	"allium/node/config"
	"allium/node/readiness"
	"allium/protocols/status"
	"allium/store"
)

const (
	// processFiles is how many descriptors a node has open beside connections and
	// the store: its log, listeners, sockets, the audit log and the records of
	// discovery with their 64 tables.
	processFiles = 128
	// leastFiles is the limit below which a node does not start: what it has open
	// anyway, what the store cannot do without, and a few connections.
	leastFiles = processFiles + 160
	// starvedFor is how long a node is not ready after a file could not be opened
	// for want of a descriptor.
	starvedFor = 10 * time.Second
)

// demand is what a configuration may need of descriptors, by key.
type demand struct {
	key string // empty: it is fixed
	n   int64
}

// demands lists what a node with that configuration may have open at one time,
// beside the caches of open files.
func demands(cfg config.Config) []demand {
	ds := []demand{{"listen.max_conns", int64(cfg.Listen.MaxConns)}}
	if cfg.Gateway.Listen != "" {
		ds = append(ds, demand{"gateway.conns", cfg.Gateway.Conns})
	}
	ds = append(ds, demand{"", 2 * cfg.Admin.Conns})
	if cfg.Store.Backend != store.BackendMemory {
		ds = append(ds, demand{"store.puts", 2 * cfg.Store.Puts}, demand{"", 2 * cfg.Store.Ingests})
	}
	return ds
}

// shareFiles decides how many of limit descriptors the store's caches of open
// files may take, 0 for as many as they like: they give way to what the
// configuration promises to clients and peers. A limit that a node cannot work
// with is an error; one that the configuration could exceed is logged.
func shareFiles(limit int64, cfg config.Config, log *slog.Logger) (int, error) {
	if limit <= 0 { // the system does not tell
		return 0, nil
	}
	if limit < leastFiles {
		return 0, status.Errorf(status.NotReady, "this process may open %d files and a node needs %d at least; raise the limit of open files (ulimit -n, LimitNOFILE)", limit, leastFiles)
	}
	need := int64(processFiles)
	ds := demands(cfg)
	most := ds[0]
	for _, d := range ds {
		need += d.n
		if d.key != "" && d.n > most.n {
			most = d
		}
	}
	left := limit - need
	if left >= int64(store.MaxOpenFiles) {
		return 0, nil
	}
	files := max(int(left), store.MinOpenFiles)
	if left < int64(store.MinOpenFiles) {
		log.Warn("the limit of open files is below what the configuration may need; beyond it connections are refused and requests get busy",
			"limit", limit, "need", need+int64(store.MinOpenFiles), "largest", most.key, "of_it", most.n,
			"fix", "raise the limit (ulimit -n, LimitNOFILE) or lower "+most.key)
	} else {
		log.Info("the caches of open files are smaller than usual, as the limit of open files leaves no more", "limit", limit, "caches", files)
	}
	return files, nil
}

// descriptorsGate shuts while files cannot be opened as the process has no
// descriptor left: requests are answered with busy then.
func (n *Node) descriptorsGate() readiness.Reading {
	last := n.store.Stats().Files.Last
	starved := !last.IsZero() && time.Since(last) < starvedFor
	r := readiness.YesNo(!starved, fmt.Sprintf("the node had no file descriptor left and answered with busy; raise the limit of open files (ulimit -n, LimitNOFILE, now %d) or lower the bounds of connections", fileLimit()))
	r.RetryAfter = time.Second
	return r
}
