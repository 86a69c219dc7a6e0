package node_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/internal/testkit"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// peerID returns the ID of a node.
func peerID(t *testing.T, n *running) peer.ID {
	t.Helper()
	id, err := peer.Decode(n.ID().ID)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestInventedOrigins: a member tells of targets of peers that it invents, and of one of its own that no cluster can
// meet. A pin of another member gets its copies all the same, the wait for it ends, and the node shows who asks what.
func TestInventedOrigins(t *testing.T) {
	noLeaks(t)
	seed := start(t, nil)
	ring := newRing(t)
	nodes := make([]*running, 3)
	for i := range nodes {
		nodes[i] = startAt(t, ring.home(t), joining(seed))
	}
	for _, n := range nodes {
		testkit.Eventually(t, "three members", func() bool {
			return metric(t, n, `durability_members{state="present"}`) == 3
		})
	}
	honest, hostile := nodes[0], nodes[2]
	client, err := hostile.RepairClient()
	if err != nil {
		t.Fatal(err)
	}
	root, data := addBytes(t, honest, 1, 100_000)
	tell := func(from ...peer.ID) {
		t.Helper()
		told := plan.Told{Root: root}
		for _, id := range from {
			seq := uint64(time.Now().UnixMilli())
			told.Asked = append(told.Asked, plan.Asked{Origin: plan.ID(id), Target: meta.Target{Copies: 32, Seq: seq}})
		}
		testkit.Eventually(t, "an answer", func() bool { // busy: the object was forgotten meanwhile
			_, err := client.Tell(t.Context(), peerID(t, honest), []plan.Told{told})
			if err != nil && status.Of(err) != status.Busy {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	var invented []peer.ID
	for range 2 * plan.MaxTargets {
		_, public, err := crypto.GenerateEd25519Key(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		id, err := peer.IDFromPublicKey(public)
		if err != nil {
			t.Fatal(err)
		}
		invented = append(invented, id)
	}
	tell(invented[:plan.MaxTargets]...)
	tell(invented[plan.MaxTargets:]...)
	copies := func(rf int) {
		t.Helper()
		target := &api.Target{RF: rf}
		if _, err := honest.api.Pin(t.Context(), root.String(), api.PinOptions{Target: target}); err != nil {
			t.Fatal(err)
		}
		if p, err := honest.api.AwaitCopies(t.Context(), root.String(), target, nil); err != nil || p.Met != 1 {
			t.Fatalf("rf %d: %+v, %v", rf, p, err)
		}
		if n := len(holders(t, nodes, root)); n < rf {
			t.Fatalf("rf %d: %d copies", rf, n)
		}
	}
	copies(2)
	d, err := honest.api.ObjectDurability(t.Context(), root.String(), false)
	if err != nil || d.Wanted != 2 {
		t.Errorf("beside what was invented %d copies are wanted, %v", d.Wanted, err)
	}
	asks := func(id peer.ID) (found api.Asking) {
		t.Helper()
		d, err := honest.api.ObjectDurability(t.Context(), root.String(), false)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range d.Asked {
			if a.ID == id.String() {
				found = a
			}
		}
		return found
	}
	if a := asks(invented[0]); a.Why != "stranger" {
		t.Errorf("of an invented peer it says %+v", a)
	}

	// What the member asks for itself counts, and is shown. It does not keep the wait for another pin from its end.
	tell(peerID(t, hostile))
	if a := asks(peerID(t, hostile)); !a.Beyond || a.Target.RF != 32 || a.Why != "" {
		t.Errorf("of the member it says %+v", a)
	}
	sum, err := honest.api.Durability(t.Context())
	if b := sum.Beyond; err != nil || b == nil || b.Objects != 1 || b.First != root || b.By.ID != hostile.ID().ID {
		t.Errorf("%+v, %v", sum.Beyond, err)
	}
	copies(3)
	whole(t, nodes[1], root, data)

	// In the name of another it can raise nothing for longer than until that hears of it.
	tell(peerID(t, honest))
	if a := asks(peerID(t, honest)); !a.Self || a.Target.RF != 3 {
		t.Errorf("of itself the node says %+v", a)
	}

	// The operator removes what a stranger asks for, and not what a member does.
	last := invented[plan.MaxTargets-2] // the others had to make room
	rm := func(id peer.ID) error {
		return honest.api.Unpin(t.Context(), root.String(), "cluster/"+id.String())
	}
	if err := rm(last); err != nil || asks(last).ID != "" {
		t.Errorf("%v, and then it says %+v", err, asks(last))
	}
	if err := rm(peerID(t, hostile)); status.Of(err) != status.Conflict || !strings.Contains(err.Error(), "pin rm") {
		t.Errorf("what a present member asks for is removed: %v", err)
	}
}

// TestWipedOrigin: a node that lost its store, and has from others what it once asked for, removes that with `pin rm`.
// The others say where to remove it.
func TestWipedOrigin(t *testing.T) {
	noLeaks(t)
	ring := newRing(t)
	seed := start(t, nil)
	home := ring.home(t)
	nodes := []*running{startAt(t, home, joining(seed)), startAt(t, ring.home(t), joining(seed))}
	two := func() {
		t.Helper()
		for _, n := range nodes {
			testkit.Eventually(t, "two members",
				func() bool { return metric(t, n, `durability_members{state="present"}`) == 2 })
		}
	}
	two()
	root, _ := addBytes(t, nodes[0], 1, 1000)
	if _, err := nodes[0].api.Pin(t.Context(), root.String(), api.PinOptions{Target: &api.Target{RF: 2}}); err != nil {
		t.Fatal(err)
	}
	if _, err := nodes[0].api.AwaitCopies(t.Context(), root.String(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := nodes[1].api.Unpin(t.Context(), root.String(), ""); status.Of(err) != status.NotFound ||
		!strings.Contains(err.Error(), nodes[0].ID().ID+": run `allium pin rm` there") {
		t.Errorf("at another member: %v", err)
	}
	if err := nodes[0].stop(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"store", "records"} {
		if err := os.RemoveAll(filepath.Join(home, dir)); err != nil {
			t.Fatal(err)
		}
	}
	nodes[0] = startAt(t, home, joining(seed))
	two()
	wanted := func(n *running, root b3.Root) int {
		d, err := n.api.ObjectDurability(t.Context(), root.String(), false)
		if err != nil {
			return -1
		}
		return d.Wanted
	}
	testkit.Eventually(t, "its copy again", func() bool { return wanted(nodes[0], root) == 2 })
	d, err := nodes[0].api.ObjectDurability(t.Context(), root.String(), false)
	if err != nil || !slices.ContainsFunc(d.Asked, func(a api.Asking) bool { return a.Self && a.Why == "adopted" }) {
		t.Errorf("%+v, %v", d.Asked, err)
	}
	if err := nodes[0].api.Unpin(t.Context(), root.String(), ""); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		testkit.Eventually(t, "no target", func() bool { return wanted(n, root) <= 0 })
	}
	if err := nodes[0].api.Unpin(t.Context(), root.String(), ""); status.Of(err) != status.NotFound {
		t.Errorf("the second time: %v", err)
	}
}
