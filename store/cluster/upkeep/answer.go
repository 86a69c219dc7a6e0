package upkeep

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// Answer returns how this node answers a challenge of its copy of an object: Proved, with a proof
// that the caller makes, else Leaving or Absent. It is Busy until the node knows its pins, so that a node
// that restarts moves nothing, and for objects that are not planned while there are too many.
func (n *inventory) Answer(root b3.Root) plan.Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.passes == 0 {
		return plan.Busy
	}
	e := n.active[root]
	k, rests := n.packed(root)
	switch {
	case rests && known(k):
		return plan.Proved
	case rests:
		return plan.Busy
	case e != nil && e.Here:
		return e.Object.Answer()
	case e == nil && n.leftOut() > 0:
		return plan.Busy
	}
	return plan.Absent
}

// learner takes over what members tell of objects. Its methods are safe for concurrent use.
type learner struct {
	*shared
	finder  *finder
	removed *recent       // numbers of removed targets of this node
	learned atomic.Uint64 // calls of learn
}

// Claimed notes that a member challenged this node about objects: the member probably holds them itself. An object at
// rest stays at rest if the member is known to hold it.
func (l *learner) Claimed(from peer.ID, objs []b3.Root) {
	v := l.deps.View()
	l.inv.mu.Lock()
	defer l.inv.mu.Unlock()
	now := l.deps.Now()
	for _, root := range objs {
		if k, rests := l.inv.packed(root); rests && k.Read(now).HeldBy(plan.ID(from)) || l.inv.crowded() {
			continue
		}
		if e := l.inv.find(root); e != nil {
			e.At(v, l.p, now).Claimed(plan.ID(from))
		}
	}
}

// Told takes over what a member tells of objects, and returns what this node knows of them, in the
// same order. Targets of objects that this node stores are durable when it returns.
func (l *learner) Told(ctx context.Context, from peer.ID, told []plan.Told) ([]plan.Told, error) {
	v := l.deps.View()
	if _, ok := v.Member(plan.ID(from)); !ok {
		return nil, status.Errorf(status.Forbidden, "%s is no member of the cluster", from)
	}
	answer := make([]plan.Told, len(told))
	var planned []plan.Told
	var at []int // of each of planned in told
	for i, t := range told {
		answer[i].Root = t.Root
		there, err := l.plans(ctx, t)
		if err != nil {
			return nil, err
		}
		if there {
			planned, at = append(planned, t), append(at, i)
		} else {
			answer[i].Asked = l.removal(t)
		}
	}
	if err := l.learn(ctx, v, from, planned); err != nil {
		return nil, err
	}
	for _, i := range at {
		found := l.inv.change(answer[i].Root, func(e *entry, now time.Time) {
			at := e.At(v, l.p, now)
			at.Claimed(plan.ID(from))
			answer[i] = at.Tell()
		})
		if !found {
			return nil, status.Errorf(status.Busy, "%s was forgotten meanwhile; ask again later", answer[i].Root)
		}
	}
	return answer, nil
}

// plans reports whether an object that a member told of is planned here, and then keeps it from being forgotten in this
// pass. It adds one only for a target. The error is busy while too many objects are active.
func (l *learner) plans(ctx context.Context, t plan.Told) (bool, error) {
	l.inv.mu.Lock()
	crowded := l.inv.crowded()
	e := l.inv.active[t.Root]
	if e == nil && !crowded {
		e = l.inv.find(t.Root)
	}
	if e != nil {
		e.told = l.inv.pass
	}
	l.inv.mu.Unlock()
	switch {
	case e != nil:
		return true, nil
	case crowded:
		return false, errCrowded()
	}
	i := slices.IndexFunc(t.Asked, func(a plan.Asked) bool { return a.Target.Wants() })
	if i < 0 {
		return false, nil
	}
	e, err := l.finder.entry(ctx, t.Root, t.Asked[i].Target.Data > 0)
	return e != nil, err
}

// removal returns that this node removed its target of an object that it has not got, if it did: with a number above
// that of a target which was told in its name.
func (l *learner) removal(t plan.Told) []plan.Asked {
	seq, ok := l.removed.of(t.Root, l.deps.Now())
	if !ok {
		return nil
	}
	for _, a := range t.Asked {
		if a.Origin == l.deps.Self && a.Target.Wants() {
			seq = max(seq, a.Target.Seq+1)
		}
	}
	return []plan.Asked{{Origin: l.deps.Self, Target: meta.Target{Seq: seq}}}
}

// learn takes over what a member told of objects, and makes it durable. That a node asks for fewer copies than
// before, or for none, is taken from that node alone: no other member can have its copies dropped. Package wire has
// checked the bounds of the message, and that the origins are ids of peers.
func (l *learner) learn(ctx context.Context, v *plan.View, from peer.ID, told []plan.Told) error {
	latest := uint64(l.deps.Now().Add(ahead).UnixMilli())
	for _, t := range told {
		for _, a := range t.Asked {
			if a.Target.Check() != nil || a.Target.Seq > latest {
				return status.Errorf(status.BadRequest,
					"the target %s of %s is malformed, or from the future", a.Target, t.Root)
			}
		}
	}
	var news []targetOf
	call := l.learned.Add(1)
	var dropping error
	for _, t := range told {
		l.inv.change(t.Root, func(e *entry, now time.Time) {
			if e.dropping {
				dropping = status.Errorf(status.Busy, "the copy of %s is being dropped; ask again later", t.Root)
				return
			}
			e.told = l.inv.pass
			changed := e.learn(t, v, plan.ID(from), l.p, now)
			if !e.Here || len(changed) == 0 {
				return
			}
			e.unkept, e.Sure = call, false
			for _, a := range changed {
				news = append(news, targetOf{t.Root, a})
			}
		})
	}
	if err := l.keep(ctx, news); err != nil {
		return err
	}
	l.inv.mu.Lock()
	defer l.inv.mu.Unlock()
	for _, t := range news {
		if e := l.inv.active[t.root]; e != nil && e.unkept == call {
			e.unkept = 0
		}
	}
	return dropping
}

// learn takes over what a member told, and returns the targets to make durable: those that are new, and all if
// that failed before.
func (e *entry) learn(t plan.Told, v *plan.View, from plan.ID, p plan.Params, now time.Time,
) []plan.Asked {
	known := e.Asked()
	own := e.OwnTarget(v.Self).Seq > 0 // in a pin of this node
	t.Asked = slices.DeleteFunc(slices.Clone(t.Asked), func(a plan.Asked) bool {
		if own && a.Origin == v.Self {
			return false // which corrects the member
		}
		return !e.takes(a.Target) || a.Origin != from && slices.ContainsFunc(known, func(k plan.Asked) bool {
			return k.Origin == a.Origin && a.Target.Places() < k.Target.Places()
		})
	})
	changed := e.At(v, p, now).Told(from, t)
	return slices.DeleteFunc(e.Asked(), func(a plan.Asked) bool {
		return a.Origin == v.Self && own || e.unkept == 0 && !slices.Contains(changed, a.Origin)
	})
}

// targetOf is a target of another node for an object.
type targetOf struct {
	root b3.Root
	plan.Asked
}

// keep makes targets of other nodes durable, in pins that they have here. It keeps no target of an object that is
// gone, and none that says that another one was removed which was not here.
func (l *learner) keep(ctx context.Context, list []targetOf) error {
	var pins []store.Pinning
	var origin plan.ID
	var label string // of origin
	for _, t := range list {
		if t.Origin != origin {
			origin, label = t.Origin, originLabel(t.Origin)
		}
		if t.Target.Wants() {
			pins = append(pins, store.Pinning{Root: t.root, Options: store.PinOptions{Label: label, Target: t.Target}})
			continue
		}
		if _, err := l.deps.Store.SetTarget(ctx, t.root, label, t.Target); err != nil &&
			status.Of(err) != status.NotFound {
			return err
		}
	}
	for _, err := range l.deps.Store.PinAll(ctx, pins) {
		if err != nil && status.Of(err) != status.NotFound {
			return err
		}
	}
	return nil
}

// GrantLease decides whether a member may drop its copy of an object.
func (l *learner) GrantLease(_ context.Context, from peer.ID, root b3.Root) (bool, error) {
	v := l.deps.View()
	l.inv.mu.Lock()
	defer l.inv.mu.Unlock()
	now := l.deps.Now()
	if l.inv.crowded() && l.inv.active[root] == nil {
		return false, errCrowded()
	}
	e := l.inv.find(root)
	if e == nil || !e.Here {
		return false, notPlanned(root)
	}
	at := e.At(v, l.p, now)
	at.Claimed(plan.ID(from))
	return at.GrantLease(plan.ID(from)), nil
}
