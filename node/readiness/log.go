package readiness

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/env"
	"allium/internal/jitter"
)

// logEvery is the usual interval at which Log calls report, and the shortest time between two lines.
const logEvery = time.Second

// Log writes to the log whether the node is ready, at the start and whenever reads,
// writes or the network begin or cease to work. It returns when ctx is done. It
// writes nothing while stopping returns true, because the node logs its own stop. A
// node that is not ready is a warning only after it was ready once.
func Log(ctx context.Context, e env.Env, report func() api.Readiness, stopping func() bool) {
	e.SetDefaults()
	log := e.Log
	every := e.Every(logEvery)
	tick := time.NewTimer(jitter.Gather(every))
	defer tick.Stop()
	type state struct{ reads, writes, network bool }
	var logged *state
	wasReady := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			tick.Reset(jitter.Gather(every))
		}
		r := report()
		now := state{r.Reads, r.Writes, r.Network}
		if stopping() || logged != nil && *logged == now {
			continue
		}
		logged = &now
		if r.Ready {
			wasReady = true
			log.Info("the node is ready")
			continue
		}
		level := slog.LevelInfo
		if wasReady {
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
		log.Log(ctx, level, "the node is not ready", "reads", r.Reads, "writes", r.Writes, "network", r.Network,
			"gates", strings.Join(shut, ","), "fix", fix)
	}
}
