package lookup

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"allium/internal/limits"
	"allium/protocols/name"
)

// maxFollows bounds the names that all readers together follow: 64 readers of events with 64 names each.
const maxFollows = 4096

// followers counts who follows each name. It is safe for concurrent use.
type followers struct {
	gate *limits.Gate

	mu    sync.Mutex        // lock: leaf
	count map[name.Name]int // never 0
}

func newFollowers(r *limits.Registry) *followers {
	return &followers{
		count: map[name.Name]int{},
		gate: r.NewGate(limits.Spec{
			Name: "resolver.followed_names", Path: "readers of events → resolver", Policy: "reject busy",
		}, maxFollows, 0),
	}
}

func (f *followers) has(n name.Name) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[n] > 0
}

func (f *followers) add(n name.Name, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[n] += by; f.count[n] == 0 {
		delete(f.count, n)
	}
}

// Follow lets Observe take up records of a name that this node does not remember, until release is
// called, once. The error is busy when 4,096 names are followed.
func (n *Names) Follow(what name.Name) (release func(), err error) {
	if err := n.followers.gate.Enter(); err != nil {
		return nil, fmt.Errorf("follow %s: %w", what, err)
	}
	n.followers.add(what, 1)
	return func() {
		n.followers.add(what, -1)
		n.followers.gate.Leave()
	}, nil
}

// Watched is a name that is followed.
type Watched struct {
	Name      name.Name
	Followers int
	Versions  name.Versions // the records that are remembered; empty: none
}

// Watched returns at most limit names that are followed, in order, and how many it left out.
func (n *Names) Watched(limit int) (names []Watched, left int) {
	n.followers.mu.Lock()
	for what, count := range n.followers.count {
		names = append(names, Watched{Name: what, Followers: count})
	}
	n.followers.mu.Unlock()
	slices.SortFunc(names, func(a, b Watched) int { return cmp.Compare(a.Name.String(), b.Name.String()) })
	left = max(0, len(names)-limit)
	names = names[:len(names)-left]
	for i := range names {
		f, _ := n.seen.Peek(names[i].Name)
		names[i].Versions = f.Versions
	}
	return names, left
}
