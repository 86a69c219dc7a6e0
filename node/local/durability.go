package local

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/store/cluster/plan"
	"allium/store/cluster/upkeep"
	"allium/store/meta"
)

// Copies keeps the copies that pins ask for. Its methods do not wait, but for the disk.
type Copies interface {
	// Pinned takes a pin whose target was just set. The error is not_ready if there is no room for its object.
	Pinned(ctx context.Context, p meta.Pin) error
	Report() upkeep.Report
	// Object returns not_found for an object without a target.
	Object(root b3.Root, explain bool) (upkeep.ObjectReport, error)
	Renounce(ctx context.Context, root b3.Root, origin peer.ID) error
	// Progress says how far objects are on the way to a target; the zero one stands for all of their targets.
	Progress(roots []b3.Root, t meta.Target) upkeep.Progress
	// StartHandover has the node hand its copies over to other members until StopHandingOver. Both are durable when
	// they return.
	StartHandover() error
	StopHandingOver() error
	Handover() upkeep.Handover
	// Resume has copies sent although many members vanished together, and returns how many are silent now.
	Resume() (silent int)
}

// Durability implements api.Node.
func (a *Node) Durability(context.Context) (api.Durability, error) {
	if a.deps.Copies == nil {
		return api.Durability{}, errNoCluster
	}
	r := a.deps.Copies.Report()
	d := api.Durability{
		Objects: r.Objects, Checking: r.Checking, AtRisk: r.AtRisk, Unreachable: r.Unreachable, Lost: r.Lost,
		Unplanned: r.Unplanned,
		Wanted:    r.Wanted, Observed: r.Observed, Missing: r.Missing, ETASeconds: r.ETA.Seconds(),
		Ready: r.Ready, LastOnly: r.LastOnly, Members: make([]api.Member, len(r.Members)),
	}
	if b := r.Beyond; b.Objects > 0 {
		d.Beyond = &api.Beyond{Objects: b.Objects, First: b.First, By: a.askingOf(b.By)}
	}
	if h := a.deps.Copies.Handover(); !h.Since.IsZero() {
		e := evacuationOf(&h)
		d.Evacuation = &e
	}
	for i, m := range r.Members {
		d.Members[i] = api.Member{
			ID: peerText(m.ID), Self: a.isSelf(m.ID), State: stateOf(m), Capacity: m.Capacity, Free: m.Free,
			Region: m.Place.Region, Domain: m.Place.Domain, Network: m.Place.Network,
		}
	}
	return d, nil
}

// ResumeCopies implements api.Node.
func (a *Node) ResumeCopies(context.Context) (api.Resumed, error) {
	if a.deps.Copies == nil {
		return api.Resumed{}, errNoCluster
	}
	return api.Resumed{Silent: a.deps.Copies.Resume()}, nil
}

func stateOf(m plan.Member) string {
	switch {
	case m.Gone:
		return "gone"
	case m.Draining:
		return "draining"
	}
	return "present"
}

func peerText(id plan.ID) string { return peer.ID(id).String() }

func (a *Node) isSelf(id plan.ID) bool { return peer.ID(id) == a.deps.Host.ID() }

// ObjectDurability implements api.Node.
func (a *Node) ObjectDurability(ctx context.Context, key string, explain bool) (api.ObjectDurability, error) {
	if a.deps.Copies == nil {
		return api.ObjectDurability{}, errNoCluster
	}
	root, err := a.reader.Root(ctx, key)
	if err != nil {
		return api.ObjectDurability{}, err
	}
	o, err := a.deps.Copies.Object(root, explain)
	if err != nil {
		return api.ObjectDurability{}, err
	}
	d := api.ObjectDurability{
		Key: root, Size: o.Size, Target: api.Target{RF: o.Wanted}, Wanted: o.Wanted,
		Observed: o.Observed, Short: o.Since,
		Removed: o.Removed, State: o.Standing.String(),
	}
	if m := o.Coded; m != nil && o.Wanted > 0 {
		d.Target = *targetFor(meta.Target{Data: m.Data, Parity: m.Parity})
	}
	for _, c := range o.Copies {
		d.Holders = append(d.Holders, api.Holder{
			ID: peerText(c.ID), Self: c.Here, State: string(c.State), Piece: pieceText(o, c), LastProof: c.LastProof,
			NextAudit: c.NextAudit,
		})
	}
	for _, q := range o.Asked {
		d.Asked = append(d.Asked, a.askingOf(q))
	}
	for _, m := range o.Place {
		p := api.Placement{ID: peerText(m.ID), Chosen: m.Chosen, Why: m.Why}
		switch {
		case m.Chosen > 0:
			p.Why = m.Shared.String()
		case p.Why == "":
			p.Why = "others come first for this object"
		}
		d.Places = append(d.Places, p)
	}
	return d, nil
}

func (a *Node) askingOf(q upkeep.Requester) api.Asking {
	n := api.Asking{ID: peerText(q.Origin), Self: a.isSelf(q.Origin), Beyond: q.Beyond}
	if t := targetFor(q.Target); t != nil {
		n.Target = *t
	}
	switch {
	case q.Stranger:
		n.Why = "stranger"
	case q.Adopted:
		n.Why = "adopted"
	}
	return n
}

// pieceText says what a member holds of a coded object.
func pieceText(o upkeep.ObjectReport, c plan.Copy) string {
	switch {
	case o.Coded == nil || c.State == plan.StateAbsent || c.State == plan.StateUnknown:
		return ""
	case c.Piece == plan.Whole:
		return "whole"
	}
	return fmt.Sprintf("shard %d", c.Piece.Shard()+1)
}

// reasonsOf says why members hold no copy, by reason.
func reasonsOf(why map[string]int) (reasons string) {
	for _, w := range slices.Sorted(maps.Keys(why)) {
		reasons += fmt.Sprintf("; of others: %s (%d)", w, why[w])
	}
	return reasons
}
