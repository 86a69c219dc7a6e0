package session_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/network"
)

// look checks what must always hold, and notes what the lanes got.
func (s *scenario) look() error {
	now := map[string]bool{}
	for _, name := range s.n.Flight() {
		now[name] = true
		if !s.flight[name] {
			s.lanes = append(s.lanes, "put "+name)
		}
	}
	s.flight = now
	if !slices.ContainsFunc(s.gates.names(), func(name string) bool { return strings.HasSuffix(name, "is handled") }) &&
		s.n.Waiting() == 0 {
		s.lanes = nil
	}
	if s.gates.wrong != nil {
		return s.gates.wrong
	}
	for _, l := range s.n.limits.Snapshot() {
		capacity := l.Capacity
		if s.bug == overfill && l.Name == "session.ingress" {
			capacity--
		}
		if l.Name != "session.control_rate" && (l.Current > capacity || l.Peak > capacity) {
			return fmt.Errorf("%s has %d, had %d, of %d", l.Name, l.Current, l.Peak, capacity)
		}
	}
	for _, a := range s.askers {
		for corr, n := range a.answers {
			if n > 1 {
				return fmt.Errorf("%s%d is answered %d times", string(a.id), corr, n)
			}
		}
	}
	if len(s.late) > 0 {
		return fmt.Errorf("handled after Drain had nothing left: %v", s.late)
	}
	return nil
}

// state is all that decides how the scenario goes on and what is checked. Peers
// of which none is special are the same but for their names.
func (s *scenario) state() string {
	lines := strings.Split(s.n.State(), "\n")
	lines = append(lines, fmt.Sprintf("draining %t drained %t stopped %t", s.draining.Load(), s.drained.Load(),
		s.stopped.Load()), fmt.Sprint("lanes ", s.lanes))
	for once := range s.did {
		if slices.Contains(atMostOnce, once) {
			lines = append(lines, "did "+once)
		}
	}
	for _, name := range s.gates.names() {
		lines = append(lines, "held "+name)
	}
	for name := range s.handled {
		lines = append(lines, "handled "+name)
	}
	for _, a := range s.askers {
		lines = append(lines, fmt.Sprintf("%s asked %d broken %t got %v end %v stopping %t",
			string(a.id), a.asked, a.broken,
			a.frames, a.end, a.stopping))
	}
	slices.Sort(lines)
	all := strings.Join(lines, "\n")
	if s.breaks {
		return all
	}
	for i := range lines {
		lines[i] = swap.Replace(lines[i])
	}
	slices.Sort(lines)
	return min(all, strings.Join(lines, "\n"))
}

// check looks how it ended.
func (s *scenario) check() error {
	if !s.stopped.Load() {
		return fmt.Errorf("Run has not returned, and nothing can happen any more:\n%s", s.state())
	}
	for _, l := range s.n.limits.Snapshot() {
		if l.Current != 0 {
			return fmt.Errorf("in the end %s has %d", l.Name, l.Current)
		}
	}
	if s.n.Entries() != 0 || !strings.Contains(s.n.State(), "inflight 0 ") {
		return fmt.Errorf("in the end there is\n%s", s.n.State())
	}
	for _, a := range s.askers {
		if err := s.told(a); err != nil {
			return fmt.Errorf("%s: %w; handled %v\n%s", string(a.id), err,
				slices.Sorted(maps.Keys(s.handled)), s.state())
		}
	}
	return nil
}

// told checks that a peer knows of everything it asked: it has the answer, or
// the stream was reset, or closed and the request never handled, so that it may
// ask again.
func (s *scenario) told(a *asker) error {
	var reset *network.StreamError
	clean := errors.Is(a.end, io.EOF)
	switch {
	case a.broken:
		return nil
	case a.end == nil:
		return errors.New("the stream has no end")
	case !clean && (!errors.As(a.end, &reset) || !reset.Remote):
		return fmt.Errorf("the stream ended with %w", a.end)
	case !clean && !a.stopping:
		return fmt.Errorf("the stream was reset while nothing was wrong: %w", a.end)
	case !clean && reset.ErrorCode != network.StreamShutdown:
		return fmt.Errorf("the stream was reset with another code: %w", a.end)
	}
	for corr := 1; corr <= a.asked; corr++ {
		handled := s.handled[fmt.Sprint(string(a.id), corr)]
		switch {
		case a.answers[uint64(corr)] == 1:
		case handled && clean:
			return fmt.Errorf("%d was handled, has no answer and the stream was closed", corr)
		case handled && s.drained.Load():
			return fmt.Errorf("%d was cut off although Drain had nothing left", corr)
		case clean && !a.stopping:
			return fmt.Errorf("%d has no answer and the stream was closed while the node was up", corr)
		}
	}
	return nil
}

// outcome is how a run ended.
func (s *scenario) outcome() string {
	var each []string
	for _, a := range s.askers {
		end := fmt.Sprintf("%s asked %d got %v then %v, handled", string(a.id), a.asked, a.frames, a.end)
		for _, name := range slices.Sorted(maps.Keys(s.handled)) {
			if strings.HasPrefix(name, string(a.id)) {
				end += " " + name
			}
		}
		each = append(each, end)
	}
	return fmt.Sprintf("drained %t; %s", s.drained.Load(), strings.Join(each, "; "))
}
