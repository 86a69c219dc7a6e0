package pack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Reconfigure takes the packs and the origins of a valid configuration. Packs that it does not name any more are
// unmounted, unless a command has put another one in their place; requests that read them finish. Those that are new
// count as not served until Run or Reload has mounted them. A pack with another file or key than before is replaced
// then, and stays mounted until the new one is verified.
func (s *Set) Reconfigure(cfg Config) {
	s.live.Store(&cfg)
	for _, m := range adopt(s, cfg.Packs) {
		m.close()
	}
}

// adopt adopts the packs of a configuration, and returns those that are unmounted.
func adopt(s *Set, packs map[string]Mount) (gone []*mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	for name, of := range s.wanted {
		if _, stays := packs[name]; !stays && s.mounts[name] != nil && s.mounts[name].of == of {
			gone = append(gone, s.mounts[name])
			delete(s.mounts, name)
		}
	}
	maps.DeleteFunc(s.behind, func(name string, _ bool) bool {
		return s.mounts[name] == nil || s.mounts[name].of == packs[name]
	})
	for name, of := range packs {
		switch m := s.mounts[name]; {
		case m == nil:
			s.mounts[name] = newMount(name, of)
		case m.of != of && s.wanted[name] != of: // else a command has put another one in its place
			s.behind[name] = true
		}
	}
	s.wanted = packs
	return gone
}

// replaceOutdated replaces the mounted packs for which the configuration now names another file or key. If again is
// true, it also retries the packs that it could not replace before. It logs and returns the failures; a pack that
// cannot be replaced stays mounted.
func replaceOutdated(ctx context.Context, s *Set, again bool) error {
	var errs []error
	for _, m := range outdated(s, again) {
		if _, err := s.Mount(ctx, m.name, m.of, nil); err != nil {
			s.deps.Log.Warn("a pack cannot be replaced; the one before stays mounted",
				"pack", m.name, "of", m.of.String(), "err", err)
			errs = append(errs, fmt.Errorf("pack %s: %w. What was mounted before stays", m.name, err))
			continue
		}
		markReplaced(s, m)
	}
	return errors.Join(errs...)
}

// outdated returns the packs of the configuration in whose place another pack is mounted, in the order of their names.
func outdated(s *Set, again bool) (others []*mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.behind)) {
		if again || s.behind[name] {
			s.behind[name] = false
			others = append(others, newMount(name, s.wanted[name]))
		}
	}
	return others
}

func markReplaced(s *Set, m *mount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wanted[m.name] == m.of {
		delete(s.behind, m.name)
	}
}
