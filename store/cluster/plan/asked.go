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

// Ask notes the target of another node and reports whether it is new. A target with a number that is not above the
// known one changes nothing. When all places are taken, see yields, neither does that of one more origin.
func (o *Object) Ask(origin ID, t meta.Target, now time.Time) bool {
	return o.note(Asked{Origin: origin, Target: t, Since: now})
}

// AskOf is Ask for a target of which this node does not know yet whether its origin is a member.
func (o *Object) AskOf(v *View, origin ID, t meta.Target, now time.Time) bool {
	return o.note(Asked{Origin: origin, Target: t, Since: now, stranger: v.find(origin) == nil})
}

// AskOwn notes the target of this node as Ask does that of others. It always has a place.
func (o *Object) AskOwn(self ID, t meta.Target, now time.Time) bool {
	return o.note(Asked{Origin: self, Target: t, Since: now, own: true})
}

// note notes a target as Ask does.
func (o *Object) note(a Asked) bool {
	at := slices.IndexFunc(o.asked, func(b Asked) bool { return b.Origin == a.Origin })
	switch {
	case at < 0 && a.Target.Seq == 0, at >= 0 && !a.Target.Replaces(o.asked[at].Target):
		return false
	case at < 0 && (a.own || o.otherOrigins() < MaxTargets-1):
		o.asked = append(o.asked, a)
	case at < 0:
		if at = o.yields(a); at < 0 {
			return false
		}
		o.asked[at] = a
	default:
		a.own, a.stranger = a.own || o.asked[at].own, o.asked[at].stranger
		if a.Target.SameCopies(o.asked[at].Target) {
			a.Since = o.asked[at].Since
		}
		o.asked[at] = a
	}
	o.leave, o.rest = leave{}, rest{}
	return true
}

// otherOrigins returns how many targets are those of other nodes.
func (o *Object) otherOrigins() (n int) {
	for _, a := range o.asked {
		if !a.own {
			n++
		}
	}
	return n
}

// yields returns the target that gives its place to a, −1 if none does: that of an origin that is no member, else the
// one that asks for the fewest copies, if a asks for more.
func (o *Object) yields(a Asked) int {
	least := -1
	for i, b := range o.asked {
		switch {
		case b.own:
		case b.stranger && !a.stranger:
			return i
		case least < 0 || b.Target.Places() < o.asked[least].Target.Places():
			least = i
		}
	}
	if least < 0 || a.stranger || a.Target.Places() <= o.asked[least].Target.Places() {
		return -1
	}
	return least
}

// weigh notes which origins are members.
func (o *Object) weigh(v *View) {
	for i := range o.asked {
		a := &o.asked[i]
		a.own = a.Origin == v.Self
		a.stranger = !a.own && v.find(a.Origin) == nil
	}
}

// hears notes a target that another member told, and reports whether it is new. Nobody changes what this node itself
// asks for: it gives its own target a number above one that differs, so that those who know that take its own.
func (o *Object) hears(v *View, a Asked, now time.Time) bool {
	if a.Origin != v.Self {
		return o.AskOf(v, a.Origin, a.Target, now)
	}
	own := o.OwnTarget(v.Self)
	if own.Seq > 0 && a.Target.Seq >= own.Seq && !a.Target.SameCopies(own) {
		return o.AskOwn(v.Self, own.Next(a.Target, 0), now)
	}
	return o.Adopt(v.Self, a.Target, now)
}

// Asked returns the targets of the object, one of each origin.
func (o *Object) Asked() []Asked { return slices.Clone(o.asked) }

// Wanted returns how many copies the targets together ask for: the most that one asks for. A shard is a copy. Targets
// of origins that are no members count only if no other one asks for anything. Then they ask for strangerCopies at
// most: enough to keep what a lost node had.
func (o *Object) Wanted() int {
	wanted, kept := 0, 0
	for _, a := range o.asked {
		n := o.places(a.Target)
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
func (o *Object) places(t meta.Target) int { return t.Places() - o.empty(t) }

// empty returns how many shards of a target have no bytes.
func (o *Object) empty(t meta.Target) int {
	if t.Data == 0 {
		return 0
	}
	return o.Empty
}

// data returns how many different shards make the object, 0 if whole copies are asked for.
func (o *Object) data() int {
	n := 0
	for _, a := range o.asked {
		n = max(n, a.Target.Data-o.empty(a.Target))
	}
	return n
}

// asks reports whether a node has a target for the object.
func (o *Object) asks(id ID) bool {
	return slices.ContainsFunc(o.asked, func(a Asked) bool { return a.Origin == id && a.Target.Wants() })
}

// unwanted reports whether nothing asked for the object within the last wait.
func (o *Object) unwanted(now time.Time, wait time.Duration) bool {
	for _, a := range o.asked {
		if a.Target.Wants() || now.Sub(a.Since) < wait {
			return false
		}
	}
	return now.Sub(o.since) >= wait
}

// version tells sets of targets apart.
func (o *Object) version() (v uint64) {
	for _, a := range o.asked {
		v += a.Origin.mix(a.Target.Seq)
	}
	return v
}

// OwnTarget returns what this node itself asks for. What it has adopted is not that.
func (o *Object) OwnTarget(self ID) (t meta.Target) {
	for _, a := range o.asked {
		if a.Origin == self && !a.adopted {
			t = a.Target
		}
	}
	return t
}

// Adopt notes the target that this node itself once asked for, as others know it, and reports whether it
// is new. It changes nothing once the node has called AskOwn. Else newer targets replace
// it, as those of others: it may have been removed meanwhile.
func (o *Object) Adopt(self ID, t meta.Target, now time.Time) bool {
	i := slices.IndexFunc(o.asked, func(a Asked) bool { return a.Origin == self })
	if i >= 0 && !o.asked[i].adopted || !o.AskOwn(self, t, now) {
		return false
	}
	o.asked[slices.IndexFunc(o.asked, func(a Asked) bool { return a.Origin == self })].adopted = true
	return true
}
