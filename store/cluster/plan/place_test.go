package plan

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"allium/protocols/b3"
)

// members returns n members of equal capacity in that many racks.
func members(n, racks int) []Member {
	list := make([]Member, n)
	for i := range list {
		list[i] = Member{
			ID: ID(fmt.Sprintf("member-%d", i)), Capacity: 1 << 40, Free: 1 << 40,
			Place: Place{Domain: fmt.Sprintf("rack-%d", i%racks)},
		}
	}
	return list
}

func placed(v *View, object, n int) (ids []ID) {
	for _, c := range v.Place(number(object), 1, nil, nil, n) {
		ids = append(ids, c.ID)
	}
	return ids
}

// missing returns how many of a are not in b.
func missing(a, b []ID) (n int) {
	for _, id := range a {
		if !slices.Contains(b, id) {
			n++
		}
	}
	return n
}

// TestJoinMovesAFairShare: when a member joins, at most 1.2 times its fair share of the copies
// moves: what its capacity is of all capacity, or what it gets because it is in a place of its
// own. A member that leaves is the same, backwards.
func TestJoinMovesAFairShare(t *testing.T) {
	t.Parallel()
	const objects, copies = 4000, 3
	for _, test := range []struct {
		name       string
		members    int
		racks      int
		capacity   int // of the new member; each of the others has 1
		joins      Place
		byCapacity bool // its place does not change its share
	}{
		{"alone in its rack", 24, 24, 1, Place{Domain: "new"}, true},
		{"in a rack of others", 24, 8, 1, Place{Domain: "rack-3"}, false},
		{"without places", 24, 1, 1, Place{}, false},
		{"four times the capacity", 48, 48, 4, Place{Domain: "new"}, true},
		{"in a rack of few", 9, 3, 1, Place{Domain: "rack-0"}, false},
		{"a fourth rack", 9, 3, 1, Place{Domain: "new"}, false},
		{"regions and networks", 24, 12, 1, Place{Domain: "rack-1", Region: "eu", Network: "10.1"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			before := members(test.members, test.racks)
			for i := range before {
				if test.joins.Region == "" {
					break
				}
				before[i].Place.Region = []string{"eu", "us", "asia"}[i%3]
				before[i].Place.Network = fmt.Sprintf("10.%d", i%5)
			}
			capacity := uint64(test.capacity) << 40
			joins := Member{ID: "joins", Capacity: capacity, Free: capacity, Place: test.joins}
			a, b := NewView("", before, false), NewView("", append(slices.Clone(before), joins), false)
			moved, got := 0, 0
			for i := range objects {
				x, y := placed(a, i, copies), placed(b, i, copies)
				moved += missing(y, x)
				if slices.Contains(y, "joins") {
					got++
				}
			}
			fair := objects * copies * float64(test.capacity) / float64(len(before)+test.capacity)
			if got == 0 || float64(moved) > 1.2*max(fair, float64(got)) {
				t.Errorf("%d copies move; the new member has %d, its share by capacity is %.0f", moved, got, fair)
			}
			if test.byCapacity && math.Abs(float64(got)/fair-1) > .15 {
				t.Errorf("the new member has %d copies; its share is %.0f", got, fair)
			}
		})
	}
}

// TestPlaceSpreads: copies are in as many domains as there are, for any members, and the choice
// does not depend on their order.
func TestPlaceSpreads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		list := make([]Member, rapid.IntRange(0, 30).Draw(t, "members"))
		domains, takers := map[string]bool{}, 0
		for i := range list {
			m := &list[i]
			m.ID = ID(fmt.Sprint("m", i))
			m.Place.Domain = rapid.SampledFrom([]string{"a", "b", "c", "d", BucketDomain + "x"}).Draw(t, "domain")
			m.Place.Region = rapid.SampledFrom([]string{"", "eu", "us"}).Draw(t, "region")
			m.Capacity = rapid.Uint64Range(0, 1<<45).Draw(t, "capacity")
			m.Free = m.Capacity / 2
			m.Draining, m.Gone = rapid.IntRange(0, 9).Draw(t, "draining") == 0,
				rapid.IntRange(0, 9).Draw(t, "gone") == 0
			m.Amnesia, m.Broken = rapid.IntRange(0, 9).Draw(t, "amnesia") == 0,
				rapid.IntRange(0, 9).Draw(t, "broken") == 0
			if m.takes(1 << 20) {
				if m.Place.Domain != BucketDomain+"x" {
					takers++
				} else if !domains[m.Place.Domain] {
					takers++ // all members of one bucket have one copy
				}
				domains[m.Place.Domain] = true
			}
		}
		n := rapid.IntRange(0, 8).Draw(t, "copies")
		root := number(rapid.IntRange(0, 1000).Draw(t, "object"))
		got := NewView("", list, false).Place(root, 1<<20, nil, nil, n)
		if len(got) != min(n, takers) {
			t.Fatalf("%d members chosen of %d for %d copies", len(got), takers, n)
		}
		used, seen := map[string]bool{}, map[ID]bool{}
		for _, c := range got {
			i := slices.IndexFunc(list, func(m Member) bool { return m.ID == c.ID })
			if !list[i].takes(1<<20) || seen[c.ID] {
				t.Fatalf("%+v was chosen", list[i])
			}
			seen[c.ID], used[list[i].Place.Domain] = true, true
		}
		if len(used) != min(n, len(domains)) {
			t.Fatalf("%d copies are in %d of %d domains", len(got), len(used), len(domains))
		}
		slices.Reverse(list)
		if again := NewView("", list, false).Place(root, 1<<20, nil, nil, n); !slices.Equal(got, again) {
			t.Fatalf("%v, and of the same members %v", got, again)
		}
	})
}

// TestPlaceByCapacity: members get copies by their capacity in steps of √2, and a change of a
// few percent changes nothing.
func TestPlaceByCapacity(t *testing.T) {
	t.Parallel()
	list := members(10, 10)
	for i := range list {
		list[i].Capacity = 1 << 40 << (i / 5)
	}
	count := map[ID]int{}
	v := NewView("", list, false)
	for i := range list {
		list[i].Capacity += list[i].Capacity / 16
	}
	later := NewView("", list, false)
	const objects = 6000
	for i := range objects {
		ids := placed(v, i, 1)
		count[ids[0]]++
		if !slices.Equal(ids, placed(later, i, 1)) {
			t.Fatal("6 % more of capacity moves an object")
		}
	}
	for i, m := range list {
		fair := float64(objects) / 15 * float64(int(1)<<(i/5))
		if n := float64(count[m.ID]); math.Abs(n/fair-1) > .2 {
			t.Errorf("%s has %.0f of %d objects; its share is %.0f", m.ID, n, objects, fair)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	v := NewView("", members(12, 12), false)
	root := number(1)
	b.ReportAllocs()
	for b.Loop() {
		_ = v.Place(root, 1, nil, nil, 3)
	}
}

// number returns the address of the object with that number.
func number(i int) (root b3.Root) {
	binary.BigEndian.PutUint64(root[:], uint64(i))
	return b3.Sum(root[:])
}
