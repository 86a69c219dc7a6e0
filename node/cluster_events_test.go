package node

import (
	"context"
	"testing"

	"allium/gateway/api"
	"allium/node/local/events"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep"
)

// TestCopiesChanged: what one tick found are at most five events, which name few members.
func TestCopiesChanged(t *testing.T) {
	t.Parallel()
	n := &Node{base: base{events: events.New(nil, nil)}}
	sub, err := n.events.Source().Subscribe("durability")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	many := make([]plan.ID, 3*api.MaxEventMembers)
	n.copiesChanged(upkeep.Change{
		Before: upkeep.Sum{Objects: 9, Behind: 1},
		Now:    upkeep.Sum{Objects: 9, AtRisk: 3, Lost: 1, Behind: 4}, Gone: many, Back: many[:1],
	})
	n.copiesChanged(upkeep.Change{Before: upkeep.Sum{Behind: 4}, Now: upkeep.Sum{Objects: 9}})
	n.copiesChanged(upkeep.Change{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what was published waits already
	for _, want := range []struct {
		kind         api.EventKind
		members, ids int
	}{
		{api.EventGone, len(many), api.MaxEventMembers}, {api.EventBack, 1, 1}, {api.EventLost, 0, 0},
		{api.EventAtRisk, 0, 0}, {api.EventRestored, 0, 0},
	} {
		e, _, err := sub.Next(ctx)
		if err != nil {
			t.Fatalf("instead of %s: %v", want.kind, err)
		}
		if d := e.Durability; e.Kind != want.kind || d.Members != want.members ||
			len(d.IDs) != want.ids || d.Objects != 9 {
			t.Errorf("%s of %+v, want %+v", e.Kind, d, want)
		}
	}
	if n := sub.Len(); n != 0 {
		t.Errorf("%d more events", n)
	}
}
