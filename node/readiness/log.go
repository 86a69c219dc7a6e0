package readiness

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"allium/gateway/api"
)

// readinessEvery is how often the log's readiness is looked at, and how often at
// most it is told.
const readinessEvery = time.Second

// Log tells the log whether the node is ready, and again whenever it
// serves reads or writes, or has its network, and did not, or the other way round, until ctx is done.
// A node that is stopping has told so. Before it was ready for the first time it
// is no warning that it is not.
func Log(ctx context.Context, log *slog.Logger, report func() api.Readiness, stopping func() bool) {
	tick := time.NewTicker(readinessEvery)
	defer tick.Stop()
	type state struct{ reads, writes, network bool }
	var told *state
	was := false // ready, at any time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := report()
		now := state{r.Reads, r.Writes, r.Network}
		if stopping() || told != nil && *told == now {
			continue
		}
		told = &now
		if r.Ready {
			was = true
			log.Info("the node is ready")
			continue
		}
		level := slog.LevelInfo
		if was {
			level = slog.LevelWarn
		}
		var shut []string
		fix := ""
		for _, g := range r.Gates {
			if g.Ready {
				continue
			}
			if shut = append(shut, g.Name); fix == "" {
				fix = g.Fix
			}
		}
		log.Log(ctx, level, "the node is not ready", "reads", r.Reads, "writes", r.Writes, "network", r.Network, "gates", strings.Join(shut, ","), "fix", fix)
	}
}
