package durability

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/durability"
	"allium/store/meta"
)

// Answer returns how this node answers a challenge of its copy of an object: Proved, with a proof
// that the caller makes, else Leaving or Absent. It is Busy until the node knows its pins, so that a node
// that restarts moves nothing, and for objects that are not planned while there are too many.
func (s *Service) Answer(root b3.Root) durability.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.objects[root]
	switch {
	case s.passes == 0:
		return durability.Busy
	case e != nil && e.here:
		return e.Object.Answer()
	case e == nil && max(s.unplanned, s.skipped) > 0:
		return durability.Busy
	}
	return durability.Absent
}

// Claimed notes that a member challenged this node, so that it seems to hold the objects itself.
func (s *Service) Claimed(from peer.ID, objs []b3.Root) {
	v := s.deps.View()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.deps.Now()
	for _, root := range objs {
		if e := s.objects[root]; e != nil {
			e.Object.Claimed(v, durability.ID(from), s.p, now)
		}
	}
}

// Told takes over what a member tells of objects, and returns what this node knows of them, in the
// same order. Targets of objects that this node stores are durable when it returns.
func (s *Service) Told(ctx context.Context, from peer.ID, told []durability.Told) ([]durability.Told, error) {
	if len(told) > MaxBatch {
		return nil, status.Errorf(status.BadRequest, "%d objects, more than %d", len(told), MaxBatch)
	}
	v := s.deps.View()
	if _, ok := v.Member(durability.ID(from)); !ok {
		return nil, status.Errorf(status.Forbidden, "%s is no member of the cluster", from)
	}
	answer := make([]durability.Told, len(told))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(keepAtOnce)
	for i, t := range told {
		group.Go(func() (err error) {
			answer[i], err = s.toldOf(ctx, v, from, t)
			return err
		})
	}
	return answer, group.Wait()
}

// toldOf takes over what a member tells of one object, and returns what this node knows of it.
func (s *Service) toldOf(ctx context.Context, v *durability.View, from peer.ID, t durability.Told) (
	durability.Told, error) {
	e, err := s.entryOf(ctx, t)
	if err != nil {
		return durability.Told{}, err
	}
	if e == nil {
		return durability.Told{Root: t.Root, Asked: s.removal(t.Root)}, nil
	}
	if err := s.learn(ctx, v, from, e, t); err != nil {
		return durability.Told{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.deps.Now()
	e.Object.Claimed(v, durability.ID(from), s.p, now)
	return e.Tell(v, s.p, now), nil
}

// entryOf returns the entry of an object that a member told of. It adds one only for a target.
func (s *Service) entryOf(ctx context.Context, t durability.Told) (*entry, error) {
	if i := slices.IndexFunc(t.Asked, func(a durability.Asked) bool { return a.Target.Wants() }); i >= 0 {
		return s.entry(ctx, t.Root, t.Asked[i].Target.Data > 0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[t.Root], nil
}

// removal returns that this node removed its target of an object that it has not got, if it did.
func (s *Service) removal(root b3.Root) []durability.Asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, ok := s.removed[root]
	if !ok {
		return nil
	}
	return []durability.Asked{{Origin: s.deps.Self, Target: meta.Target{Seq: seq}}}
}

// learn takes over what a member told of an object, and makes it durable. That a node asks for fewer copies than
// before, or for none, is taken from that node alone: no other member can have its copies dropped.
func (s *Service) learn(ctx context.Context, v *durability.View, from peer.ID, e *entry, t durability.Told) error {
	now := s.deps.Now()
	if len(t.Asked) > durability.MaxTargets || len(t.Holders) > durability.MaxSeen {
		return status.Errorf(status.BadRequest, "%d targets and %d holders of %s, more than an object has",
			len(t.Asked), len(t.Holders), t.Root)
	}
	latest := uint64(now.Add(ahead).UnixMilli())
	for _, a := range t.Asked {
		if _, err := peer.IDFromBytes([]byte(a.Origin)); err != nil || a.Target.Check() != nil || a.Target.Seq > latest {
			return status.Errorf(status.BadRequest, "the target %s of %s is malformed, or from the future", a.Target, t.Root)
		}
	}
	s.mu.Lock()
	e.told = s.pass
	known := e.Asked()
	t.Asked = slices.DeleteFunc(slices.Clone(t.Asked), func(a durability.Asked) bool {
		return a.Origin != durability.ID(from) && slices.ContainsFunc(known, func(k durability.Asked) bool {
			return k.Origin == a.Origin && a.Target.Places() < k.Target.Places()
		})
	})
	t.Asked = slices.DeleteFunc(t.Asked, func(a durability.Asked) bool { return !e.takes(a.Target) })
	changed := e.Object.Told(t, v, s.p, now)
	here, asked := e.here, e.Asked()
	s.mu.Unlock()
	if !here {
		return nil
	}
	for _, a := range asked {
		if !slices.Contains(changed, a.Origin) {
			continue
		}
		if err := s.keep(ctx, t.Root, a); err != nil {
			return err
		}
	}
	return nil
}

// keep makes the target of another node durable, in a pin that it has here.
func (s *Service) keep(ctx context.Context, root b3.Root, a durability.Asked) error {
	label := originLabel(a.Origin)
	_, err := s.deps.Store.SetTarget(ctx, root, label, a.Target)
	if status.Of(err) == status.NotFound && a.Target.Wants() {
		err = s.deps.Store.Pin(ctx, root, store.PinOptions{Label: label, Target: a.Target})
	}
	if status.Of(err) == status.NotFound {
		return nil // the object is gone, or no pin was here that a removal could change
	}
	return err
}

// Grant decides whether a member may drop its copy of an object.
func (s *Service) Grant(_ context.Context, from peer.ID, root b3.Root) (bool, error) {
	v := s.deps.View()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.deps.Now()
	e := s.objects[root]
	if e == nil || !e.here {
		return false, notPlanned(root)
	}
	e.Object.Claimed(v, durability.ID(from), s.p, now)
	return e.Grant(v, durability.ID(from), s.p, now), nil
}
