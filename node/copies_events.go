package node

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep"
)

// copiesChanged publishes what a tick found that changed about copies: at most five events, whatever happened.
func (n *Node) copiesChanged(c upkeep.Change) {
	about := api.DurabilityEvent{
		Objects: c.Now.Objects, AtRisk: c.Now.AtRisk, Lost: c.Now.Lost, Missing: c.Now.Missing,
	}
	if len(c.Gone) > 0 {
		n.events.Durability(api.EventGone, ofMembers(about, c.Gone))
	}
	if len(c.Back) > 0 {
		n.events.Durability(api.EventBack, ofMembers(about, c.Back))
	}
	if c.Lost() {
		n.events.Durability(api.EventLost, about)
	}
	switch {
	case c.Behind():
		n.events.Durability(api.EventAtRisk, about)
	case c.Restored():
		n.events.Durability(api.EventRestored, about)
	}
}

func ofMembers(e api.DurabilityEvent, ids []plan.ID) api.DurabilityEvent {
	e.Members = len(ids)
	for _, id := range ids[:min(len(ids), api.MaxEventMembers)] {
		e.IDs = append(e.IDs, peer.ID(id).String())
	}
	return e
}
