package testnet

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"allium/gateway/api"
)

// Status is the state of a network.
type Status struct {
	Dir   string       `json:"dir"`
	Seed  uint64       `json:"seed,omitempty"` // 0 when identities are new each time
	Nodes []NodeStatus `json:"nodes"`
}

// NodeStatus is the state of one node.
type NodeStatus struct {
	Number  int      `json:"number"`
	ID      string   `json:"id"`
	Home    string   `json:"home"`
	Gateway string   `json:"gateway"`
	Admin   string   `json:"admin"`
	Running bool     `json:"running"`
	Ready   bool     `json:"ready"`
	Closed  []string `json:"closed"`          // the gates that keep it from being ready
	Peers   int      `json:"peers"`           // connected peers, each counted once
	Faults  []string `json:"faults"`          // its faults, in words
	Error   string   `json:"error,omitempty"` // why its state is not known
}

// Status asks all nodes for their state at the same time. It does not wait for a verb.
func (n *Net) Status(ctx context.Context) Status {
	n.mu.Lock()
	told := slices.Clone(n.pushed)
	n.mu.Unlock()
	ids := n.ids()
	s := Status{Dir: n.dir, Seed: n.o.Seed, Nodes: make([]NodeStatus, len(n.Members))}
	var wg sync.WaitGroup
	for i, m := range n.Members {
		wg.Go(func() {
			s.Nodes[i] = n.nodeStatus(ctx, m)
			s.Nodes[i].Faults = describe(told[i], ids)
		})
	}
	wg.Wait()
	return s
}

func (n *Net) nodeStatus(ctx context.Context, m *Member) NodeStatus {
	id := m.ID()
	s := NodeStatus{
		Number: m.Number, ID: id.ID, Home: m.Home, Gateway: id.Gateway, Admin: id.Admin,
		Running: m.Running(), Closed: []string{},
	}
	if !s.Running {
		return s
	}
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	r, err := n.Readiness(ctx, m)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Closed = closedGates(r)
	s.Ready = len(s.Closed) == 0
	peers, err := m.API.Peers(ctx)
	if err != nil {
		s.Error = err.Error()
		return s
	}
	s.Peers = distinct(peers)
	return s
}

// distinct counts the peers of connections. A peer may have two connections.
func distinct(conns []api.Peer) int {
	ids := map[string]bool{}
	for _, c := range conns {
		ids[c.ID] = true
	}
	return len(ids)
}

// String returns a table for people.
func (s Status) String() string {
	var b strings.Builder
	for _, n := range s.Nodes {
		state := "ready"
		switch {
		case !n.Running:
			state = "does not run"
		case n.Error != "":
			state = "does not answer: " + n.Error
		case !n.Ready:
			state = "not ready: " + strings.Join(n.Closed, ", ")
		}
		fmt.Fprintf(&b, "node %-3d %s", n.Number, state)
		if n.Running && n.Error == "" {
			fmt.Fprintf(&b, ", %d peers", n.Peers)
		}
		for _, f := range n.Faults {
			b.WriteString("; " + f)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
