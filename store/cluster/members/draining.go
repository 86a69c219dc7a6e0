package members

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"allium/internal/privatefile"
)

// The file that says that this node is draining is a line of text with the time when that began.

// Draining returns since when this node hands its copies over to other members, the zero time if it does not.
func (s *Service) Draining() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drained
}

// Drain has the offers of this node say that it hands its copies over: they do not count any more, and it gets no
// others. That is durable when Drain returns; others hear of it within seconds. It returns since when that is so.
func (s *Service) Drain() (time.Time, error) {
	s.draining.Lock()
	defer s.draining.Unlock()
	if since := s.Draining(); !since.IsZero() {
		return since, nil
	}
	now := s.deps.Now().UTC()
	if s.cfg.File != "" {
		if err := privatefile.Replace(s.cfg.File, []byte(now.Format(time.RFC3339Nano)+"\n")); err != nil {
			return time.Time{}, fmt.Errorf("keep that the node hands its copies over: %w", err)
		}
	}
	s.setDraining(now)
	return now, nil
}

// StopDraining makes this node a full member again. It changes nothing for one that is.
func (s *Service) StopDraining() error {
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.cfg.File != "" {
		if err := privatefile.Remove(s.cfg.File); err != nil {
			return fmt.Errorf("forget that the node hands its copies over: %w", err)
		}
	}
	s.setDraining(time.Time{})
	return nil
}

func (s *Service) setDraining(since time.Time) {
	s.mu.Lock()
	s.drained = since
	s.mu.Unlock()
	s.offerSoon()
}

// readDraining returns what Draining does after a restart. If the file is there and cannot be understood, the node
// hands its copies over from now on: that is what the file was written for.
func (s *Service) readDraining() time.Time {
	if s.cfg.File == "" {
		return time.Time{}
	}
	now := s.deps.Now().UTC()
	text, err := os.ReadFile(s.cfg.File)
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}
	}
	var since time.Time
	if err == nil {
		since, err = time.Parse(time.RFC3339Nano, string(bytes.TrimSpace(text)))
	}
	if err != nil || since.After(now) {
		s.deps.Log.Warn("it is not known since when this node hands its copies over: it begins now", "file", s.cfg.File,
			"err", err)
		return now
	}
	s.deps.Log.Info("this node hands its copies over to other members; `allium node drain --evacuate --stop` ends that",
		"since", since)
	return since
}
