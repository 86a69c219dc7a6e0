package names

import (
	"fmt"
	"sync"

	"allium/internal/limits"
	"allium/protocols/name"
)

// maxFollowed bounds the names that are followed at one time, of all readers together: 64 readers
// of events with 64 names each.
const maxFollowed = 4096

// followed counts who follows each name. It is safe for concurrent use.
type followed struct {
	gate *limits.Gate

	mu    sync.Mutex
	count map[name.Name]int // never 0
}

func newFollowed(r *limits.Registry) *followed {
	return &followed{
		count: map[name.Name]int{},
		gate: r.NewGate(limits.Spec{
			Name: "resolver.followed_names", Path: "readers of events → resolver", Policy: "reject busy",
		}, maxFollowed, 0),
	}
}

func (f *followed) has(n name.Name) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.count[n] > 0
}

func (f *followed) add(n name.Name, by int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count[n] += by; f.count[n] == 0 {
		delete(f.count, n)
	}
}

// Follow lets Observe take up records of a name that this node does not remember, until release is
// called, once. The error is busy when 4,096 names are followed.
func (n *Names) Follow(what name.Name) (release func(), err error) {
	if err := n.followed.gate.Enter(); err != nil {
		return nil, fmt.Errorf("follow %s: %w", what, err)
	}
	n.followed.add(what, 1)
	return func() {
		n.followed.add(what, -1)
		n.followed.gate.Leave()
	}, nil
}
