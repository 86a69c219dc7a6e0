package node_test

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/node/config"
	"allium/protocols/b3"
)

// holders returns the indexes of the nodes that have an object whole and pinned, for themselves or for
// the cluster.
func holders(t *testing.T, nodes []*running, root b3.Root) (at []int) {
	t.Helper()
	for i, n := range nodes {
		if n == nil {
			continue
		}
		for p, err := range n.Store().Pins(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if p.Root == root {
				at = append(at, i)
				break
			}
		}
	}
	return at
}

// whole fails the test unless a node has the bytes of an object.
func whole(t *testing.T, n *running, root b3.Root, want []byte) {
	t.Helper()
	obj, err := n.Store().Open(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer obj.Close()
	got, err := io.ReadAll(io.NewSectionReader(obj.Reader(), 0, obj.Size()))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d of %d bytes, %v", len(got), len(want), err)
	}
}

// TestCopies: what a node pins with a target is sent to other members of its cluster, and when one of
// these is gone for good, to another one. A node that is no member gets nothing.
func TestCopies(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	ring := newRing(t)
	nodes := make([]*running, 4, 5)
	small := 1 // offers less than the large object needs
	for i := range nodes {
		nodes[i] = startAt(t, ring.home(t), func(c *config.Config) {
			joining(seed)(c)
			if c.Durability.Targets = []string{"kept=3"}; i == small {
				c.Durability.Offer = 1 << 20
			}
		})
	}
	for _, n := range nodes {
		testkit.Eventually(t, "four members",
			func() bool { return metric(t, n, `durability_members{state="present"}`) == 4 })
	}
	type object struct {
		root b3.Root
		data []byte
	}
	var objs []object
	for i, size := range []int{0, 1, 65536, 65537, 3_000_000} {
		root, data := addBytes(t, nodes[0], byte(i), size)
		objs = append(objs, object{root, data})
		p, err := nodes[0].api.Pin(t.Context(), root.String(), api.PinOptions{Label: "kept"})
		if err != nil || p.Target == nil || p.Target.RF != 3 {
			t.Fatalf("%+v, %v", p, err)
		}
	}
	check := func(what string) {
		t.Helper()
		for _, o := range objs {
			testkit.Eventually(t, what, func() bool { return len(holders(t, nodes, o.root)) == 3 })
			for _, i := range holders(t, nodes, o.root) {
				whole(t, nodes[i], o.root, o.data)
			}
		}
	}
	check("three copies")
	if slices.Contains(holders(t, nodes, objs[4].root), small) {
		t.Error("a member got more than it offers")
	}
	if n := metric(t, nodes[0], `repair_objects_total{kind="replicate",outcome="ok"}`); n == 0 {
		t.Error("no copy was counted")
	}
	gone := holders(t, nodes, objs[4].root)[2]
	if err := nodes[gone].stop(); err != nil {
		t.Fatal(err)
	}
	nodes[gone] = nil
	nodes = append(nodes, startAt(t, ring.home(t), joining(seed)))
	check("three copies again")
	received := int64(0)
	for _, n := range live(nodes) {
		received += metric(t, n, `repair_bytes_total{kind="receive"}`)
	}
	if received < 3_000_000 {
		t.Errorf("the members count %d received bytes of repairs", received)
	}
	if slices.Contains(holders(t, []*running{seed}, objs[0].root), 0) {
		t.Error("a node that is no member has a copy")
	}
}

// TestShards: what a node pins with an erasure coding is read from others once that node is gone, by members and
// by strangers; the shard that it stood for is made again, and another one's after that.
func TestShards(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	ring := newRing(t)
	nodes := make([]*running, 5)
	for i := range nodes {
		nodes[i] = startAt(t, ring.home(t), joining(seed))
	}
	for _, n := range nodes {
		testkit.Eventually(t, "five members",
			func() bool { return metric(t, n, `durability_members{state="present"}`) == 5 })
	}
	root, data := addBytes(t, nodes[0], 1, 3_000_000)
	if _, err := nodes[0].api.Pin(t.Context(), root.String(),
		api.PinOptions{Target: &api.Target{EC: "2+1"}}); err != nil {
		t.Fatal(err)
	}
	if p, err := nodes[0].api.AwaitCopies(t.Context(), root.String(), nil, nil); err != nil || p.Met != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if n := metric(t, nodes[0], "coding_encoded_bytes_total"); n != int64(len(data)) {
		t.Errorf("%d bytes were coded of an object of %d", n, len(data))
	}
	stranger := start(t, joining(seed))
	for range 2 {
		// The holder whose turn it is: first the node with the whole object, then one with a shard.
		gone := -1
		testkit.Eventually(t, "a holder that sees three", func() bool {
			gone = slices.IndexFunc(nodes, func(n *running) bool { return n != nil && observed(t, n, root) == 3 })
			return gone >= 0
		})
		if err := nodes[gone].stop(); err != nil {
			t.Fatal(err)
		}
		nodes[gone] = nil
		for _, n := range append(slices.Clone(nodes), stranger) {
			if n == nil {
				continue
			}
			s, err := n.api.Cat(t.Context(), root.String(), b3.Range{End: -1})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(s.Body); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%d of %d bytes, %v", len(got), len(data), err)
			}
			_ = s.Body.Close()
		}
		testkit.Eventually(t, "three shards again", func() bool {
			left := live(nodes)
			return slices.ContainsFunc(left, func(n *running) bool {
				return observed(t, n, root) == 3 &&
					metric(t, n, `durability_members{state="present"}`) == int64(len(left))
			})
		})
	}
}

// observed returns how many copies or shards of an object a node sees, 0 if it holds none.
func observed(t *testing.T, n *running, root b3.Root) int {
	t.Helper()
	d, err := n.api.ObjectDurability(t.Context(), root.String(), false)
	if err != nil {
		return 0
	}
	return d.Observed
}

// live returns the nodes that run.
func live(nodes []*running) []*running {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *running) bool { return n == nil })
}
