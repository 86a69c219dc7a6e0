package reload

import (
	"context"
	"time"

	"allium/gateway/api"
	"allium/node/config"
)

// lookEvery is the time between two looks at the gates.
const lookEvery = time.Second

// looks judges gates of readiness by those that were open before a reload. A gate counts as shut when two looks in a
// row find it so: many gates shut for a moment under load, and one that the reload has shut stays shut.
type looks struct {
	open map[string]bool // before the reload
	shut map[string]bool // of them, in the latest look
}

func newLooks(before []api.Gate) looks {
	l := looks{open: map[string]bool{}}
	for _, g := range before {
		l.open[g.Name] = g.Ready
	}
	return l
}

// look returns the first gate that counts as shut now, or nil.
func (l *looks) look(gates []api.Gate) (first *api.Gate) {
	shut := map[string]bool{}
	for _, g := range gates {
		if g.Ready || !l.open[g.Name] {
			continue
		}
		shut[g.Name] = true
		if l.shut[g.Name] && first == nil {
			first = &g
		}
	}
	l.shut = shut
	return first
}

// watch is the guard of a reload.
type watch struct {
	looks        looks // of Run's goroutine alone
	until        time.Time
	rec          *record
	old, applied *config.Loaded
}

// guard watches the latest reload until ctx is done or the node drains.
func (s *Service) guard(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		w := s.watch.Load()
		if w == nil {
			tick.Stop()
		} else {
			tick.Reset(lookEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.life.draining:
			<-ctx.Done()
			return
		case <-s.watched:
			continue
		case <-tick.C:
		}
		if w != nil {
			s.look(ctx, w)
		}
	}
}

// look looks at the gates for a watch. It ends the watch when its time is over, and takes the reload back when a gate
// has shut.
func (s *Service) look(ctx context.Context, w *watch) {
	gate := w.looks.look(s.deps.Gates())
	if gate == nil {
		if !time.Now().Before(w.until) {
			s.watch.CompareAndSwap(w, nil)
			w.old = nil
			config.ReturnMemory(w.applied)
		}
		return
	}
	free, err := s.gate.Acquire(ctx)
	if err != nil {
		return // the node stops, or many reloads wait: the next look finds the gate shut again
	}
	defer free()
	s.revert(w, gate)
}

// revert puts the snapshot from before a reload in force, unless another reload has changed the configuration or the
// node drains: then gates shut for another reason. The caller holds s.gate.
func (s *Service) revert(w *watch, gate *api.Gate) {
	if s.watch.Load() != w || s.Current() != w.applied || s.life.drains() {
		return
	}
	s.watch.Store(nil)
	s.current.Store(w.old)
	s.deps.Apply(w.old.Config)
	w.rec.set(func(r *api.Reloaded) { r.Result, r.Gate = api.ReloadReverted, gate })
	s.metrics.updates.WithLabelValues(string(api.ReloadReverted)).Inc()
	about := eventOf(w.rec.get())
	s.deps.Log.Warn("a gate has shut after a reload, and the configuration from before it is in force again. Mend the "+
		"configuration before the next reload", "token", about.Token, "gate", gate.Name, "fix", gate.Fix,
		"keys", about.Keys, "count", about.Count)
	s.publish(api.EventReverted, about)
}
