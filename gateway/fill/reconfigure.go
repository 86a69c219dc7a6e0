package fill

import (
	"context"
	"errors"
	"reflect"
)

// live is a configuration in force, with its sources by name. It never changes.
type live struct {
	Config
	sources map[string]*source
}

// close closes the clients of the sources, but for those that next has too. Requests that run go on.
func (l *live) close(next ...*live) {
	for name, src := range l.sources {
		if src.client != nil && (len(next) == 0 || next[0].sources[name] != src) {
			src.client.Close()
		}
	}
}

// Reconfigure applies the hot fields of a valid configuration at once, its sources among them. Fills that run go on
// with the source that they began with. A source that cannot be used, because its ca_file cannot be read, is logged;
// the one that had its name stays, or there is none.
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
	old, next := s.live.Load(), &live{cfg, map[string]*source{}}
	var errs []error
	for name, of := range cfg.Sources {
		was := old.sources[name]
		same := was != nil && of.CAFile == "" && cfg.FillBytes == old.FillBytes && reflect.DeepEqual(was.cfg, of)
		if same {
			next.sources[name] = was
			continue
		}
		src, err := newSource(name, of, cfg, s.deps, s.m)
		if err != nil {
			errs = append(errs, err)
			src = was
		}
		if src != nil {
			next.sources[name] = src
		}
	}
	s.live.Store(next)
	old.close(next)
	return errors.Join(errs...)
}
