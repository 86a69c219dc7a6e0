package testnet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/testnet/script"
)

// condition is the faults that a network has: the sum of the verbs so far. It is
// immutable; a verb makes another one.
type condition struct {
	n     int // nodes
	links map[link]linkState
	rates map[int]int64
	lies  map[int]bool
	full  map[int]bool
	skews map[int]time.Duration
}

// link is a pair of nodes, the lower number first.
type link struct{ a, b int }

func between(a, b int) link { return link{min(a, b), max(a, b)} }

// linkState is the faults of a link, in both directions. The zero value has none.
type linkState struct {
	cut           bool
	delay, jitter time.Duration
	percent       float64
}

// with returns the condition after another verb of faults.
func (c condition) with(s script.Step) condition {
	c.links, c.rates, c.lies, c.full, c.skews = maps.Clone(c.links), maps.Clone(c.rates), maps.Clone(c.lies),
		maps.Clone(c.full), maps.Clone(c.skews)
	nodes := s.Nodes.In(c.n)
	switch s.Op {
	case script.Partition:
		c.eachLink(func(l link, st *linkState) { st.cut = separated(s.Groups, l) })
	case script.Latency:
		c.eachLink(func(l link, st *linkState) {
			if s.Links.Has(l.a, l.b, c.n) {
				st.delay, st.jitter = s.Delay, s.Jitter
			}
		})
	case script.Loss:
		c.eachLink(func(l link, st *linkState) {
			if s.Links.Has(l.a, l.b, c.n) {
				st.percent = s.Percent
			}
		})
	case script.Slow:
		c.rates = set(c.rates, nodes, s.Bytes)
	case script.Corrupt:
		c.lies = set(c.lies, nodes, !s.Off)
	case script.FullDisk:
		c.full = set(c.full, nodes, !s.Off)
	case script.ClockSkew:
		c.skews = set(c.skews, nodes, s.Skew)
	case script.Heal:
		if len(s.Nodes) == 0 {
			return condition{n: c.n}
		}
		c.eachLink(func(l link, st *linkState) {
			if slices.Contains(nodes, l.a) || slices.Contains(nodes, l.b) {
				*st = linkState{}
			}
		})
		c.rates, c.lies, c.full, c.skews = set(c.rates, nodes, 0), set(c.lies, nodes, false), set(c.full, nodes, false),
			set(c.skews, nodes, 0)
	}
	return c
}

// set returns m with a value for keys. The zero value removes them.
func set[V comparable](m map[int]V, keys []int, v V) map[int]V {
	var zero V
	if m == nil {
		m = map[int]V{}
	}
	for _, k := range keys {
		if v == zero {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	return m
}

// eachLink calls f with the state of every link, which f may change.
func (c *condition) eachLink(f func(link, *linkState)) {
	if c.links == nil {
		c.links = map[link]linkState{}
	}
	for a := 1; a <= c.n; a++ {
		for b := a + 1; b <= c.n; b++ {
			l := link{a, b}
			st := c.links[l]
			if f(l, &st); st == (linkState{}) {
				delete(c.links, l)
			} else {
				c.links[l] = st
			}
		}
	}
}

// separated reports whether a partition cuts a link. Several groups cut links between
// groups; a single group cuts links between it and other nodes.
func separated(groups []script.Nodes, l link) bool {
	in := func(n int) int {
		return slices.IndexFunc(groups, func(g script.Nodes) bool { return slices.Contains(g, n) })
	}
	a, b := in(l.a), in(l.b)
	if len(groups) == 1 {
		return a != b
	}
	return a >= 0 && b >= 0 && a != b
}

// of returns the faults of node number. ids are the identities of the nodes, in
// order. A node without an identity has never started and gets no link faults.
func (c condition) of(number int, ids []api.ID) api.Faults {
	f := api.Faults{
		Corrupt: c.lies[number], FullDisk: c.full[number],
		ClockSkewMS: c.skews[number].Milliseconds(), Rate: c.rates[number],
	}
	for i, id := range ids {
		st, ok := c.links[between(number, i+1)]
		if !ok || i+1 == number || id.ID == "" {
			continue
		}
		f.Links = append(f.Links, api.LinkFault{
			Peer: id.ID, Addrs: id.Addrs, Cut: st.cut,
			DelayMS:  (st.delay - st.jitter).Milliseconds(), // a node is told the smallest delay and the range above it
			JitterMS: (2 * st.jitter).Milliseconds(),
			Loss:     st.percent / 100,
		})
	}
	return f
}

// describe says in words which faults a node has. ids are the identities of the nodes.
func describe(f api.Faults, ids []api.ID) []string {
	said := []string{}
	number := map[string]int{}
	for i, id := range ids {
		number[id.ID] = i + 1
	}
	links := map[string][]int{} // node numbers by the faults of their link
	var order []string
	for _, l := range f.Links {
		for _, w := range describeLink(l) {
			if links[w] == nil {
				order = append(order, w)
			}
			links[w] = append(links[w], number[l.Peer])
		}
	}
	for _, w := range order {
		said = append(said, w+" "+numbers(links[w]))
	}
	if f.Rate > 0 {
		said = append(said, "sends at most "+limits.Bytes(f.Rate).String()+"/s")
	}
	if f.Corrupt {
		said = append(said, "lies")
	}
	if f.FullDisk {
		said = append(said, "has a full disk")
	}
	if skew := f.ClockSkew(); skew != 0 {
		said = append(said, fmt.Sprintf("has its clock %s ahead", skew))
	}
	return said
}

func describeLink(l api.LinkFault) []string {
	var said []string
	if l.Cut {
		said = append(said, "is cut from")
	}
	if l.DelayMS > 0 || l.JitterMS > 0 {
		late := (l.Delay() + l.Jitter()/2).String()
		if l.JitterMS > 0 {
			late += " ±" + (l.Jitter() / 2).String()
		}
		said = append(said, "sends "+late+" late to")
	}
	if l.Loss > 0 {
		said = append(said, "loses "+strconv.FormatFloat(l.Loss*100, 'g', 4, 64)+"% of what it sends to")
	}
	return said
}

func numbers(list []int) string {
	out := make([]string, len(list))
	for i, n := range list {
		out[i] = strconv.Itoa(n)
	}
	return strings.Join(out, ",")
}
