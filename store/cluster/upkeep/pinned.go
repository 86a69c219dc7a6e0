package upkeep

import (
	"context"

	"allium/protocols/status"
	"allium/store/meta"
)

// Pinned takes over the target of a pin that was just set, and has the next tick look at what is below, so that nobody
// waits for a pass over all pins. If too many wait, the pass finds it. The error is not_ready if this node plans as
// many objects as it can.
func (s *Service) Pinned(ctx context.Context, p meta.Pin) error {
	if p.Recursive {
		s.lookSoon(p)
	}
	defer s.wakeUp()
	if err := s.raise(ctx, p); err != nil {
		if !p.Recursive {
			s.lookSoon(p)
		}
		if status.Of(err) != status.Busy {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.Target.Wants() && s.entryFor(p.Root) == nil && s.objects.len() >= s.objects.limit {
		return status.Errorf(status.NotReady,
			"this node plans %d objects, and no more; its copies are made once there is "+
				"room: remove pins, or pin it on another node of the cluster", s.objects.limit)
	}
	return nil
}

// lookSoon has the next tick look at a pin.
func (s *Service) lookSoon(p meta.Pin) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pinned) < maxPinned {
		s.pinned = append(s.pinned, p)
	}
}

// lookAtPinned takes over the targets of pins that were just set.
func (s *Service) lookAtPinned(ctx context.Context) {
	s.mu.Lock()
	pins := s.pinned
	s.mu.Unlock()
	defer func() { // till then no target counts as met
		s.mu.Lock()
		s.pinned = s.pinned[len(pins):]
		s.mu.Unlock()
	}()
	for _, p := range pins {
		err := s.raise(ctx, p)
		if p.Recursive && err == nil {
			err = s.raiseBelow(ctx, p)
		}
		if err != nil && ctx.Err() == nil {
			s.deps.Log.Warn("the target of a new pin is planned later", "root", p.Root, "err", err)
		}
	}
}

func (s *Service) raiseBelow(ctx context.Context, p meta.Pin) error {
	for root, err := range s.deps.Below(ctx, p.Root) {
		if err != nil {
			return err
		}
		p.Root = root
		if err := s.raise(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
