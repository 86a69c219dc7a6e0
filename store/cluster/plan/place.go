package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"allium/protocols/b3"
)

// Choice is a member that Place chose, and why.
type Choice struct {
	ID     ID
	Order  int // place in the object's order among the members that take a copy, from 1
	Shared Shared
}

// Shared counts the copies chosen before that are in the same place.
type Shared struct {
	Domain, Region, Network int
}

// String says what a choice shares with others, for `allium durability --explain`.
func (s Shared) String() string {
	if s == (Shared{}) {
		return "spread"
	}
	return fmt.Sprintf("shares its domain with %d, its region with %d, its network with %d",
		s.Domain, s.Region, s.Network)
}

// compare orders by what costs most: a shared domain, then a region, then a network.
func (s Shared) compare(o Shared) int {
	return cmp.Or(cmp.Compare(s.Domain, o.Domain), cmp.Compare(s.Region, o.Region), cmp.Compare(s.Network, o.Network))
}

// Place chooses up to n members for copies of an object of size bytes, beside those in held, which
// have one, and those in avoid, which are not chosen. It takes one after the other: of the members
// that share least with the copies chosen so far, the one that is first in the object's order.
// Members that share a bucket with a copy are no choice. The result depends on the members and
// the arguments alone.
func (v *View) Place(root b3.Root, size int64, held, avoid []ID, n int) []Choice {
	if n <= 0 {
		return nil
	}
	var spread places
	for _, id := range held {
		if m := v.find(id); m != nil {
			spread.add(m.Place)
		}
	}
	list := make([]ranked, 0, len(v.members))
	for i := range v.members {
		m := &v.members[i]
		if m.takes(size) && !slices.Contains(held, m.ID) && !slices.Contains(avoid, m.ID) {
			list = append(list, ranked{m, m.score(&root)})
		}
	}
	return spread.choose(list, n)
}

// inOrder returns the holders in the order in which Place had chosen them if there were no other
// members. It leaves out those that are no members.
func (v *View) inOrder(root b3.Root, holders []ID) []ID {
	list := v.ranked(&root, holders)
	var spread places
	order := make([]ID, 0, len(list))
	for _, c := range spread.choose(list, len(list)) {
		order = append(order, c.ID)
	}
	return order
}

// choose takes up to n members of list, one after the other: the first in the order of scores of
// those that share least with p and with the ones taken before.
func (p *places) choose(list []ranked, n int) []Choice {
	slices.SortFunc(list, compareRanked)
	chosen := make([]Choice, 0, n)
	taken := make([]bool, len(list))
	for len(chosen) < n {
		best := -1
		var least Shared
		for i, r := range list {
			if taken[i] || p.sameBucket(r.Place) {
				continue
			}
			if s := p.shared(r.Place); best < 0 || s.compare(least) < 0 {
				best, least = i, s
				if s == (Shared{}) {
					break
				}
			}
		}
		if best < 0 {
			break
		}
		taken[best] = true
		p.add(list[best].Place)
		chosen = append(chosen, Choice{ID: list[best].ID, Order: best + 1, Shared: least})
	}
	return chosen
}

// places are the places of the copies chosen so far: few enough for a list.
type places []Place

func (p *places) add(at Place) { *p = append(*p, at) }

func (p places) shared(at Place) (s Shared) {
	for _, o := range p {
		if o.Domain == at.Domain {
			s.Domain++
		}
		if o.Region == at.Region {
			s.Region++
		}
		if o.Network == at.Network {
			s.Network++
		}
	}
	return s
}

func (p places) sameBucket(at Place) bool {
	if !isBucket(at.Domain) {
		return false
	}
	for _, o := range p {
		if o.Domain == at.Domain {
			return true
		}
	}
	return false
}

func isBucket(domain string) bool { return strings.HasPrefix(domain, BucketDomain) }
