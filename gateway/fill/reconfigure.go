package fill

import (
	"context"
	"errors"
	"reflect"

	"allium/gateway/fill/origin"
	"allium/internal/tasks"
)

// live is a configuration in force, with its sources by name. It never changes.
type live struct {
	Config
	sources map[string]*source

	// life is that of all clients of origins since the node began to ask them, nil offline. It ends when the node goes
	// offline: fills that run end with errOffline, whichever source they began with.
	life *origin.Life
}

// newLive returns a configuration without sources, to follow old.
func newLive(cfg Config, old *live) *live {
	l := &live{Config: cfg, sources: map[string]*source{}}
	switch {
	case cfg.Mode == Offline:
	case old.life != nil:
		l.life = old.life
	default:
		l.life = origin.NewLife()
	}
	return l
}

// close closes the clients of the sources, but for those that next has too. Requests that run go on.
func (l *live) close(next ...*live) {
	for name, src := range l.sources {
		if src.client != nil && (len(next) == 0 || next[0].sources[name] != src) {
			src.client.Close()
		}
	}
}

// Reconfigure applies a valid configuration at once, its sources among them. Fills that run go on with the source that
// they began with, and beyond Config.Fills if there are more; if the node goes offline, they end, and when Reconfigure
// returns no origin is connected to or looked up any more. A source that cannot be used, because its ca_file cannot
// be read, is logged; the one that had its name stays, or there is none.
func (s *Service) Reconfigure(cfg Config) {
	if err := adopt(s, cfg); err != nil {
		s.deps.Log.Warn("a source cannot be used; the one before stays", "err", err)
	}
}

// Reload reads the files of the sources again, and returns why some cannot be used.
func (s *Service) Reload(context.Context) error { return adopt(s, s.live.Load().Config) }

// adopt puts a configuration in force with its sources. It keeps those that have not changed, and what is known of
// their origins. One call runs at a time.
func adopt(s *Service, cfg Config) error {
	old := s.live.Load()
	next := newLive(cfg, old)
	var errs []error
	for name, of := range cfg.Sources {
		was := old.sources[name]
		same := was != nil && of.CAFile == "" && cfg.FillBytes == old.FillBytes && cfg.Mode == old.Mode &&
			reflect.DeepEqual(was.cfg, of)
		if same {
			next.sources[name] = was
			continue
		}
		src, err := newSource(name, next, s.deps, s.m)
		if err != nil {
			errs = append(errs, err)
			if was != nil && !was.offline() { // one that was, asks nobody
				src = was
			}
		}
		if src != nil {
			next.sources[name] = src
		}
	}
	s.live.Store(next)
	if next.life == nil && old.life != nil {
		old.life.End(errOffline)
	}
	old.close(next)
	s.deps.Tasks.List(tasks.Info{
		Name: "fills.workers", Kind: tasks.Worker, Started: true, Owner: "gateway/fill", Count: cfg.Fills,
		Restart: "its fill ends with internal, and it takes the next", Doc: "fetch assets from origins",
	})
	s.pool.resize(cfg.Fills)
	s.queue.ResizeWorkers(queueRuns(cfg))
	return errors.Join(errs...)
}
