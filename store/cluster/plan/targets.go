package plan

import (
	"slices"
	"time"

	"allium/store/meta"
)

// strangerCopies is the maximum number of copies that origins that are no members ask for.
const strangerCopies = 3

// Asked is the target of one node for an object.
type Asked struct {
	Origin ID // the node whose pin asks for it
	Target meta.Target
	Since  time.Time // when this node learned that it asks for so many copies

	own     bool // the origin is this node
	adopted bool // the origin is this node, which has it from others
	// stranger says that the origin is no member: this node did not hear it within forgetAfter, or never.
	stranger bool
}

// targets are the targets of one object: how many copies each node asks for.
type targets struct {
	// Empty is the number of data shards that have no bytes, at the end of a small object: nobody holds these. The
	// caller sets it.
	Empty int

	asked []Asked   // one of each origin, at most MaxTargets: one place is kept for this node
	since time.Time // when this node began to hold the object
}

// take notes a target and reports whether it is new. One with a number that is not above the known one changes nothing.
// When all places are taken, see yields, neither does that of one more origin.
func (t *targets) take(a Asked) bool {
	at := t.of(a.Origin)
	switch {
	case at < 0 && a.Target.Seq == 0, at >= 0 && !a.Target.Replaces(t.asked[at].Target):
		return false
	case at < 0 && (a.own || t.others() < MaxTargets-1):
		t.asked = append(t.asked, a)
		return true
	case at < 0:
		if at = t.yields(a); at < 0 {
			return false
		}
	default:
		a.own, a.stranger = a.own || t.asked[at].own, t.asked[at].stranger
		if a.Target.SameCopies(t.asked[at].Target) {
			a.Since = t.asked[at].Since
		}
	}
	t.asked[at] = a
	return true
}

// of returns which target is that of an origin, −1 if none is.
func (t *targets) of(origin ID) int {
	return slices.IndexFunc(t.asked, func(a Asked) bool { return a.Origin == origin })
}

// others returns how many targets are those of other nodes.
func (t *targets) others() (n int) {
	for _, a := range t.asked {
		if !a.own {
			n++
		}
	}
	return n
}

// yields returns the target that gives its place to a, −1 if none does: that of an origin that is no member, else the
// one that asks for the fewest copies, if a asks for more.
func (t *targets) yields(a Asked) int {
	least := -1
	for i, b := range t.asked {
		switch {
		case b.own:
		case b.stranger && !a.stranger:
			return i
		case least < 0 || b.Target.Places() < t.asked[least].Target.Places():
			least = i
		}
	}
	if least < 0 || a.stranger || a.Target.Places() <= t.asked[least].Target.Places() {
		return -1
	}
	return least
}

// weigh notes which origins are members.
func (t *targets) weigh(v *View) {
	for i := range t.asked {
		a := &t.asked[i]
		a.own = a.Origin == v.Self
		a.stranger = !a.own && v.find(a.Origin) == nil
	}
}

// Asked returns the targets of the object, one of each origin.
func (t *targets) Asked() []Asked { return slices.Clone(t.asked) }

// Wanted returns how many copies the targets together ask for: the most that one asks for. A shard is a copy. Targets
// of origins that are no members count only if no other one asks for anything. Then they ask for strangerCopies at
// most: enough to keep what a lost node had.
func (t *targets) Wanted() int {
	wanted, kept := 0, 0
	for _, a := range t.asked {
		n := t.places(a.Target)
		switch {
		case !a.stranger:
			wanted = max(wanted, n)
		case a.Target.Data > 0: // as many as the manifest says
			kept = max(kept, n)
		default:
			kept = max(kept, min(n, strangerCopies))
		}
	}
	if wanted == 0 {
		return kept
	}
	return wanted
}

// places returns how many copies of the object, or shards with bytes, a target asks for.
func (t *targets) places(of meta.Target) int {
	if of.Data > 0 {
		return of.Places() - t.Empty
	}
	return of.Places()
}

// data returns how many different shards make the object, 0 if whole copies are asked for.
func (t *targets) data() (n int) {
	for _, a := range t.asked {
		n = max(n, a.Target.Data)
	}
	return max(n-t.Empty, 0)
}

// least returns how many copies the object is lost without.
func (t *targets) least() int { return max(t.data(), 1) }

// readable reports whether the object can be read from copies.
func (t *targets) readable(c copies) bool { return c.whole() > 0 || len(c.shards()) >= t.least() }

// asks reports whether a node has a target for the object.
func (t *targets) asks(id ID) bool {
	i := t.of(id)
	return i >= 0 && t.asked[i].Target.Wants()
}

// adds reports whether only the target of a member asks for what is missing while copies take so many places: older
// ones ask for less, and have that.
func (t *targets) adds(a Asked, covered int) bool {
	older := 0
	for _, b := range t.asked {
		if !b.stranger && b.Since.Before(a.Since) {
			older = max(older, t.places(b.Target))
		}
	}
	return !a.stranger && covered >= older && t.places(a.Target) > older
}

// unwanted reports whether nothing asked for the object within the last wait.
func (t *targets) unwanted(now time.Time, wait time.Duration) bool {
	return now.Sub(t.since) >= wait && !slices.ContainsFunc(t.asked, func(a Asked) bool {
		return a.Target.Wants() || now.Sub(a.Since) < wait
	})
}

// version tells sets of targets apart.
func (t *targets) version() (v uint64) {
	for _, a := range t.asked {
		v += a.Origin.mix(a.Target.Seq)
	}
	return v
}

// OwnTarget returns what this node itself asks for. What it has adopted is not that.
func (t *targets) OwnTarget(self ID) meta.Target {
	i := t.of(self)
	if i < 0 || t.asked[i].adopted {
		return meta.Target{}
	}
	return t.asked[i].Target
}

// Knows reports whether the object has a target of a node that is as new as another one, and asks for the same. alone
// says that it has no target but that.
func (t *targets) Knows(origin ID, target meta.Target) (known, alone bool) {
	k := t.OwnTarget(origin)
	known = k.Seq > 0 && k.Seq >= target.Seq && k.SameCopies(target)
	return known, known && len(t.asked) == 1
}
