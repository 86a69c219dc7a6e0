package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"allium/protocols/status"
)

// Cluster keeps the members of a cluster and when they were heard. It is not safe for
// concurrent use.
type Cluster struct {
	self    ID
	p       Params
	members map[ID]*heard // at most MaxMembers
	mass    time.Time     // until when only last copies are repaired
	known   time.Time     // see View.Known
}

// heard is a member and when it was heard last.
type heard struct {
	Member
	seq   uint64 // of its latest offer
	last  time.Time
	given bool // the operator said that it does not come back
}

// NewCluster returns a cluster without members, as of now.
func NewCluster(self ID, p Params, now time.Time) *Cluster {
	return &Cluster{self: self, p: p, members: map[ID]*heard{}, known: now.Add(p.Grace)}
}

// Remembered is a member as a node remembers it over a restart.
type Remembered struct {
	Member
	Last time.Time // when it was heard last
}

// Remember returns the other members for Restore, in no order.
func (c *Cluster) Remember(now time.Time) (list []Remembered) {
	for _, m := range c.View(now).members {
		if m.ID != c.self {
			list = append(list, Remembered{m.Member, c.members[m.ID].last})
		}
	}
	return list
}

// Restore takes over the members that were remembered before a restart. Those that were present get a grace to be
// heard. More than MaxMembers are left out.
func (c *Cluster) Restore(list []Remembered, now time.Time) {
	c.known = time.Time{}
	for _, r := range list[:min(len(list), MaxMembers)] {
		if r.ID == c.self || c.members[r.ID] != nil {
			continue
		}
		if !r.Gone || r.Last.After(now) {
			r.Last = now
		}
		r.Since = time.Time{}
		c.members[r.ID] = &heard{Member: r.Member, last: r.Last}
	}
}

// Offer notes an offer, numbered by its author. An older one is stale, and the same one again
// changes nothing: only what is new shows that its author is there. Offers of more than MaxMembers are refused
// with busy, until a member that is gone can be forgotten.
func (c *Cluster) Offer(m Member, seq uint64, now time.Time) error {
	h := c.members[m.ID]
	switch {
	case h != nil && seq < h.seq:
		return status.Errorf(status.Stale, "the offer is older than the one before")
	case h != nil && seq == h.seq:
		return nil
	case h == nil && len(c.members) >= MaxMembers && !c.forgetOne(now):
		return status.Errorf(status.Busy, "the cluster has %d members, which is the limit", MaxMembers)
	case h == nil:
		h = &heard{}
		c.members[m.ID] = h
	}
	m.Gone, m.Since = false, h.Since
	if h.Gone || m.Since.IsZero() {
		m.Since = now
	}
	h.Member, h.seq, h.last, h.given = m, seq, now, false
	return nil
}

// Contact notes that a member answered.
func (c *Cluster) Contact(id ID, now time.Time) {
	if h := c.members[id]; h != nil && now.After(h.last) {
		h.last, h.given = now, false
	}
}

// Present reports whether a member was heard within the grace.
func (c *Cluster) Present(id ID, now time.Time) bool {
	h := c.members[id]
	return h != nil && (id == c.self || now.Sub(h.last) < c.p.Grace)
}

// IDs returns the members in no order.
func (c *Cluster) IDs() []ID { return slices.Collect(maps.Keys(c.members)) }

// Break notes whether the node's breaker for a member is open.
func (c *Cluster) Break(id ID, open bool) {
	if h := c.members[id]; h != nil {
		h.Broken = open
	}
}

// Resume ends the time in which only last copies are repaired: the operator says that the
// members that are silent now do not come back. It does not begin again because of these. Resume returns how many they
// are.
func (c *Cluster) Resume(now time.Time) (silent int) {
	c.mass = time.Time{}
	for id, h := range c.members {
		if h.given = id != c.self && now.Sub(h.last) >= c.p.Grace/2; h.given {
			silent++
		}
	}
	return silent
}

// View returns the members at now. A member that was silent for the grace is gone. When more than
// a third of the members are silent for half of the grace, and were not so one grace earlier, the
// view says that only last copies are repaired: for an hour, until they are back, or until Resume.
func (c *Cluster) View(now time.Time) *View {
	list := make([]Member, 0, len(c.members))
	present, vanished, away := 0, 0, 0
	for id, h := range c.members {
		silent := now.Sub(h.last)
		if id == c.self {
			silent = 0
		}
		h.Gone = silent >= c.p.Grace
		switch {
		case silent >= forgetAfter:
			delete(c.members, id)
			continue
		case silent < c.p.Grace/2:
			present++
		case h.given:
		case silent < c.p.Grace*3/2:
			vanished++
		case silent < massHold+2*c.p.Grace:
			away++
		}
		list = append(list, h.Member)
	}
	switch {
	case 3*vanished > present+vanished:
		c.mass = now.Add(massHold)
	case 3*(vanished+away) <= present+vanished+away:
		c.mass = time.Time{}
	}
	v := NewView(c.self, list, now.Before(c.mass))
	v.Known = c.known
	return v
}

// forgetOne forgets the member that is gone for longest, and reports whether there was one.
func (c *Cluster) forgetOne(now time.Time) bool {
	var oldest *heard
	for id, h := range c.members {
		if id == c.self || now.Sub(h.last) < c.p.Grace {
			continue
		}
		if oldest == nil || cmp.Or(h.last.Compare(oldest.last), strings.Compare(string(id), string(oldest.ID))) < 0 {
			oldest = h
		}
	}
	if oldest == nil {
		return false
	}
	delete(c.members, oldest.ID)
	return true
}
