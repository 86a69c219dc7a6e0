package upkeep

import (
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// Requester is a node that asks for copies of an object.
type Requester struct {
	Origin plan.ID
	Target meta.Target
	// Stranger says that it is no member of the cluster: what it asks for counts only while no member asks.
	Stranger bool
	Adopted  bool // it is this node, which has no pin that says so and has it from others
	Beyond   bool // there are not so many members
}

// asking returns the nodes that ask for copies of an object, or of its shards. The caller holds mu.
func (n *inventory) asking(root b3.Root, v *plan.View) (list []Requester) {
	for _, e := range n.entriesOf(root) {
		list = append(list, e.asking(v)...)
	}
	return list
}

// asking returns the nodes that ask for copies of e.
func (e *entry) asking(v *plan.View) (list []Requester) {
	members := present(v)
	for _, a := range e.Asked() {
		if !a.Target.Wants() {
			continue
		}
		self := a.Origin == v.Self
		_, member := v.Member(a.Origin)
		list = append(list, Requester{
			Origin: a.Origin, Target: a.Target, Stranger: !self && !member,
			Adopted: self && !e.OwnTarget(a.Origin).Wants(), Beyond: a.Target.Places() > members,
		})
	}
	return list
}

// entriesOf returns what is planned of an object: the entries of its codings and that of it. The caller holds mu.
func (n *inventory) entriesOf(root b3.Root) []*entry {
	if e := n.peek(root); e != nil {
		return append(slices.Clip(n.codings[root]), e)
	}
	return n.codings[root]
}

// present returns how many members are there.
func present(v *plan.View) (n int) {
	for _, m := range v.Members() {
		if !m.Gone {
			n++
		}
	}
	return n
}

// Beyond counts the objects whose targets ask for more copies than there are members.
type Beyond struct {
	Objects int
	First   b3.Root   // one of them
	By      Requester // the node that asks for the most copies of First: a member, if one does
}

// add counts an object.
func (b *Beyond) add(e *entry, v *plan.View, members int) {
	if e.Wanted() <= members {
		return
	}
	if b.Objects++; b.Objects > 1 {
		return
	}
	b.First = e.Root
	if e.coded != nil {
		b.First = e.coded.Object
	}
	for i, a := range e.asking(v) {
		more := a.Target.Places() > b.By.Target.Places()
		if i == 0 || b.By.Stranger && !a.Stranger || more && a.Stranger == b.By.Stranger {
			b.By = a
		}
	}
}

// Renounce removes what a node asks for of an object, on this node alone: what this node itself asked for before it
// lost its pins, or what one asks that is gone. It returns conflict for a member that is there, as that removes it
// itself, and not_found if the node asks for nothing. The removal is durable when Renounce returns.
func (l *learner) Renounce(ctx context.Context, root b3.Root, origin peer.ID) error {
	id := plan.ID(origin)
	if m, ok := l.deps.View().Member(id); ok && !m.Gone && id != l.deps.Self {
		return status.Errorf(status.Conflict, "%s is a member that is there: run `allium pin rm` on it", origin)
	}
	given := l.inv.given(root, id)
	if len(given) == 0 {
		return status.Errorf(status.NotFound, "%s asks for no copies of %s", origin, root)
	}
	if err := l.keep(ctx, given); err != nil {
		return err
	}
	l.inv.mu.Lock()
	now := l.deps.Now()
	for _, t := range given {
		if e := l.inv.find(t.root); e != nil {
			e.renounce(l.deps.Self, t.Asked, now)
		}
	}
	l.inv.mu.Unlock()
	l.wakeUp()
	return nil
}

// given returns removals of what a node asks for of an object, but not of what the pins of this node ask for.
func (n *inventory) given(root b3.Root, id plan.ID) (given []targetOf) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := uint64(n.now().UnixMilli())
	for _, e := range n.entriesOf(root) {
		for _, a := range e.Asked() {
			if a.Origin != id || !a.Target.Wants() || e.OwnTarget(n.self).Wants() && id == n.self {
				continue
			}
			a.Target = meta.Target{}.Next(a.Target, now)
			given = append(given, targetOf{e.Root, a})
		}
	}
	return given
}

func (e *entry) renounce(self plan.ID, a plan.Asked, now time.Time) {
	if a.Origin == self {
		e.adopted = a.Target
		e.AskOwn(self, a.Target, now)
		return
	}
	e.Ask(a.Origin, a.Target, now)
}
