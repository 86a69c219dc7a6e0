package plan

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"allium/protocols/b3"
)

// ID identifies a member: the bytes of its peer ID.
type ID string

// Place says where a member is, to spread copies. Members that do not say it count as one place,
// so that saying nothing gains nothing.
type Place struct {
	Domain  string // host, rack, volume or bucket
	Region  string
	Network string // ASN, IPv4 /16 or IPv6 /48
}

// BucketDomain begins the domain of members that keep their bytes in a bucket. Members with one
// such domain share the bytes, so their copies count as one.
const BucketDomain = "bucket:"

// Member is the state of one member of a node's cluster, as the node knows it.
type Member struct {
	ID       ID
	Place    Place
	Capacity uint64 // bytes that it offers in all
	Free     uint64 // bytes that it still takes
	Draining bool   // its copies are handed over: they do not count, and it gets no more
	Amnesia  bool   // its copies do not survive a restart: they do not count
	Broken   bool   // the node's breaker for it is open: it gets no more copies for now
	Gone     bool   // it was silent for the grace
	// Since is since when the member is present without a break, as this node saw it; the caller of [Cluster.Offer]
	// need not set it.
	Since time.Time
}

// counts reports whether a proved copy at m counts for a target.
func (m Member) counts() bool { return !m.Gone && !m.Draining && !m.Amnesia }

// takes reports whether m may get a copy of size bytes.
func (m Member) takes(size int64) bool { return m.refusal(size) == "" }

// refusal says why m may not get a copy of size bytes, "" if it may.
func (m Member) refusal(size int64) string {
	switch {
	case m.Gone:
		return "silent for too long"
	case m.Draining:
		return "draining"
	case m.Amnesia:
		return "its store is in RAM"
	case m.Broken:
		return "its circuit breaker is open"
	case m.Capacity == 0:
		return "offers no space"
	case m.Free < uint64(size):
		return "too little space is left"
	}
	return ""
}

// View is the cluster as one node knows it at one time. It does not change.
type View struct {
	Self     ID
	members  []viewed  // by ID
	LastOnly bool      // more than a third vanished together: repair last copies alone
	Known    time.Time // until then members may be missing that this node has not heard yet; zero: none is
	version  uint64    // of all that a plan depends on
}

// viewed is a member with what placement computes from it once.
type viewed struct {
	Member
	key    uint64  // of its ID
	weight float64 // of its capacity
}

// NewView returns a view of members, among which self should be.
func NewView(self ID, members []Member, lastOnly bool) *View {
	v := &View{Self: self, LastOnly: lastOnly, members: make([]viewed, 0, len(members))}
	for _, m := range members {
		sum := b3.Sum([]byte(m.ID))
		v.members = append(v.members, viewed{m, binary.LittleEndian.Uint64(sum[:]), weight(m.Capacity)})
	}
	slices.SortFunc(v.members, func(a, b viewed) int { return strings.Compare(string(a.ID), string(b.ID)) })
	v.version = v.sum()
	return v
}

// sum returns a number for what plans depend on but free space, Known and Since, which are only looked at for sends.
func (v *View) sum() uint64 {
	h := flags(v.LastOnly)
	for i := range v.members {
		m := &v.members[i]
		h = mix(h^m.key) ^ math.Float64bits(m.weight) ^ flags(m.Draining, m.Amnesia, m.Broken, m.Gone)
		for _, s := range []string{m.Place.Domain, m.Place.Region, m.Place.Network} {
			h = ID(s).mix(h)
		}
	}
	return h | 1 // no view has version 0
}

// Version tells views apart with which the plan of an object may differ.
func (v *View) Version() uint64 { return v.version }

func flags(set ...bool) (bits uint64) {
	for i, b := range set {
		if b {
			bits |= 1 << i
		}
	}
	return bits
}

// Member returns the member with that ID.
func (v *View) Member(id ID) (Member, bool) {
	m := v.find(id)
	if m == nil {
		return Member{}, false
	}
	return m.Member, true
}

func (v *View) find(id ID) *viewed {
	i, ok := slices.BinarySearchFunc(v.members, id, func(m viewed, id ID) int {
		return strings.Compare(string(m.ID), string(id))
	})
	if !ok {
		return nil
	}
	return &v.members[i]
}

// present reports whether a member is there and was heard within the grace.
func (v *View) present(id ID) bool {
	m := v.find(id)
	return m != nil && !m.Gone
}

// Members returns the members in order of their IDs.
func (v *View) Members() []Member {
	all := make([]Member, len(v.members))
	for i, m := range v.members {
		all[i] = m.Member
	}
	return all
}

// weight returns the weight of a capacity: the largest power of √2 of MiB that is not above it.
// With steps this coarse, a change of a few percent moves no object.
func weight(capacity uint64) float64 {
	mib := capacity >> 20
	if mib == 0 {
		return 1
	}
	k := bits.Len64(mib) - 1
	w := math.Ldexp(1, k)
	if float64(mib) >= w*math.Sqrt2 {
		w *= math.Sqrt2
	}
	return w
}

// score returns the place of m in the order of an object: the lowest comes first. Scores are
// exponentially distributed with a rate of the member's weight, so a member is first for a
// share of the objects that is its share of the weight, and its score depends on no other
// member. Machines may round the logarithm differently; two planners then differ for one
// object in 2⁵⁰, and what they double is trimmed.
func (m *viewed) score(root *b3.Root) float64 {
	h := m.key
	for i := 0; i < len(root); i += 8 {
		h = mix(h ^ binary.LittleEndian.Uint64(root[i:]))
	}
	u := (float64(h>>11) + 0.5) / (1 << 53)
	return -math.Log(u) / m.weight
}

// mix is the finalizer of splitmix64, which changes half of the bits for each bit of x.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// mix returns a number for h and the ID.
func (id ID) mix(h uint64) uint64 {
	for i := range len(id) {
		h = mix(h ^ uint64(id[i]))
	}
	return mix(h)
}

// ranked is a member with its score for an object.
type ranked struct {
	*viewed
	score float64
}

func compareRanked(a, b ranked) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(string(a.ID), string(b.ID)))
}

// ranked returns the members among ids with their scores for an object, in the order of ids.
func (v *View) ranked(root *b3.Root, ids []ID) []ranked {
	list := make([]ranked, 0, len(ids))
	for _, id := range ids {
		if m := v.find(id); m != nil {
			list = append(list, ranked{m, m.score(root)})
		}
	}
	return list
}

// first returns the ids in the order of an object. It leaves out those that are no members.
func (v *View) first(root *b3.Root, ids []ID) []ID {
	list := v.ranked(root, ids)
	slices.SortFunc(list, compareRanked)
	order := make([]ID, len(list))
	for i, r := range list {
		order[i] = r.ID
	}
	return order
}

// nearest returns up to n other members that are present, in the order of an object.
func (v *View) nearest(root *b3.Root, n int) []ID {
	ids := make([]ID, 0, len(v.members))
	for i := range v.members {
		if m := &v.members[i]; m.ID != v.Self && !m.Gone {
			ids = append(ids, m.ID)
		}
	}
	if len(ids) > n {
		ids = v.first(root, ids)[:n]
	}
	return ids
}
