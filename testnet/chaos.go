package testnet

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"allium/gateway/api"
	"allium/protocols/status"
	"allium/testnet/script"
)

// Said describes in sentences the effects of a verb.
type Said []string

// String joins the sentences with semicolons.
func (s Said) String() string { return strings.Join(s, "; ") }

// Do runs one verb of chaos and says what it did. A verb that fails half-way is
// undone when Do returns, and the error says what failed.
func (n *Net) Do(ctx context.Context, s script.Step) (Said, error) {
	if err := script.CheckNodes(s, len(n.Members)); err != nil {
		return nil, err
	}
	select {
	case n.verb <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: another verb is at work: %w", s.Op, ctx.Err())
	}
	defer func() { <-n.verb }()
	switch s.Op {
	case script.Kill:
		return n.kill(ctx, s.Nodes.In(len(n.Members)))
	case script.Restart:
		return n.restart(ctx, s.Nodes.In(len(n.Members)))
	case script.Partition, script.Heal, script.Latency, script.Loss, script.Slow, script.Corrupt, script.FullDisk,
		script.ClockSkew:
		if err := n.apply(ctx, n.current.with(s)); err != nil {
			return nil, err
		}
		return Said{said(s)}, nil
	}
	return nil, status.Errorf(status.BadRequest, "%s is no verb of chaos", s.Op)
}

// kill ends nodes at once. A process gets SIGKILL. A node in this process has its
// connections closed first, so that no peer receives a GOAWAY, and is then stopped.
// Unlike after SIGKILL, its store is closed in order.
func (n *Net) kill(ctx context.Context, nodes []int) (Said, error) {
	for _, i := range nodes {
		if m := n.Members[i-1]; !m.Running() {
			return nil, down(m) // before any node is killed
		}
	}
	errs := make([]error, len(nodes))
	did := make(Said, len(nodes))
	var wg sync.WaitGroup
	for at, i := range nodes {
		wg.Go(func() {
			m := n.Members[i-1]
			inside := n.o.program(i) == ""
			errs[at] = m.kill(ctx, inside)
			did[at] = m.Name + " was killed"
			if inside {
				did[at] = m.Name + " was cut off and stopped (it runs in this process, which cannot be killed)"
			}
		})
	}
	wg.Wait()
	for _, i := range nodes {
		n.note(i, api.Faults{}) // a restarted node has no faults
	}
	return did, errors.Join(errs...)
}

// restart starts nodes with the homes and identities they had. They get the ports they
// had, unless another program has taken them. It returns when the nodes are ready and know
// their faults. A node that runs is killed first.
func (n *Net) restart(ctx context.Context, nodes []int) (_ Said, err error) {
	var started []int
	defer func() {
		if err == nil || len(started) == 0 {
			return
		}
		_, undone := n.kill(context.WithoutCancel(ctx), started)
		err = errors.Join(err, undone)
	}()
	var did Said
	for _, i := range nodes {
		m, down := n.Members[i-1], false
		if m.Running() {
			if _, err := n.kill(ctx, []int{i}); err != nil {
				return nil, err
			}
		} else {
			_ = m.stop(ctx) // the node may have ended by itself; Status shows its error
			down = true
		}
		n.note(i, api.Faults{})
		before := m.ID()
		if err := m.start(ctx, n.o, n.seedsFor(i)); err != nil {
			return nil, fmt.Errorf("restart of %s: %w", m.Name, err)
		}
		if down {
			started = append(started, i)
		}
		where := "with its ports"
		if !slices.Equal(before.Addrs, m.ID().Addrs) {
			where = "on other ports, its own were taken"
		}
		did = append(did, m.Name+" runs again, "+where)
	}
	return did, n.apply(ctx, n.current) // other nodes too: the addresses of the restarted ones may have changed
}

// apply sends the nodes the faults of a condition. On error it sends the faults of
// the condition before it.
func (n *Net) apply(ctx context.Context, c condition) error {
	before := slices.Clone(n.pushed)
	err := n.push(ctx, func(i int, ids []api.ID) api.Faults { return c.of(i, ids) })
	if err == nil {
		n.current = c
		return nil
	}
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	undone := n.push(back, func(i int, _ []api.ID) api.Faults { return before[i-1] })
	if undone != nil {
		undone = fmt.Errorf("and it could not be undone: %w", undone)
	}
	return errors.Join(err, undone)
}

// push sends every running node its faults, all nodes at once. Nodes whose faults
// have not changed are left out.
func (n *Net) push(ctx context.Context, of func(number int, ids []api.ID) api.Faults) error {
	ids := n.ids()
	errs := make([]error, len(n.Members))
	var wg sync.WaitGroup
	for i, m := range n.Members {
		f := of(m.Number, ids)
		if !m.Running() || reflect.DeepEqual(f, n.pushed[i]) {
			continue
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askWithin)
			defer cancel()
			if _, err := m.API.SetFaults(ctx, f); err != nil {
				errs[i] = fmt.Errorf("%s takes no faults: %w", m.Name, err)
				return
			}
			n.note(m.Number, f)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// note records the faults that a node was sent.
func (n *Net) note(number int, f api.Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pushed[number-1] = f
}

// ids returns the identities of the nodes, in order.
func (n *Net) ids() []api.ID {
	ids := make([]api.ID, len(n.Members))
	for i, m := range n.Members {
		ids[i] = m.ID()
	}
	return ids
}

// said describes what a verb of faults did.
func said(s script.Step) string {
	who := "node " + s.Nodes.String()
	if len(s.Nodes) > 1 || s.Nodes.Max() == 0 {
		who = "nodes " + s.Nodes.String()
	}
	links := "all links"
	switch {
	case len(s.Links.B) > 0:
		links = "the links between " + s.Links.A.String() + " and " + s.Links.B.String()
	case len(s.Links.A) > 0:
		links = "the links of " + s.Links.A.String()
	}
	rest := strings.TrimPrefix(s.String(), string(s.Op)+" ")
	switch {
	case s.Op == script.Heal && len(s.Nodes) == 0:
		return "every fault is undone"
	case s.Op == script.Heal:
		return "the faults of " + who + " and of its links are undone"
	case s.Op == script.Partition && s.Off:
		return "the partition is undone"
	case s.Op == script.Partition && len(s.Groups) == 1:
		return "nothing passes between " + rest + " and the others"
	case s.Op == script.Partition:
		return "nothing passes between " + rest
	case s.Op == script.Latency && s.Off:
		return links + " are as fast as before"
	case s.Op == script.Latency:
		return links + " take " + strings.TrimSuffix(rest, " "+s.Links.String()) + " longer, each way"
	case s.Op == script.Loss && s.Off:
		return links + " lose nothing more"
	case s.Op == script.Loss:
		return links + " lose " + strings.TrimSuffix(rest, " "+s.Links.String()) + " of the packets"
	case s.Off:
		return string(s.Op) + " of " + who + " is undone"
	case s.Op == script.Slow:
		return who + " sends at most " + strings.TrimPrefix(rest, s.Nodes.String()+" ")
	case s.Op == script.Corrupt:
		return who + " lies about what it serves"
	case s.Op == script.FullDisk:
		return who + " sees no free byte on its disk"
	}
	return who + " has its clock at " + strings.TrimPrefix(rest, s.Nodes.String()+" ")
}
