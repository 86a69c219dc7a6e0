package localapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/internal/limits"
	"allium/node/durability"
	"allium/protocols/b3"
	"allium/protocols/status"
	plan "allium/store/durability"
	"allium/store/meta"
)

// Copies keeps the copies that pins ask for. Its methods do not wait, but for the disk.
type Copies interface {
	// Pinned takes a pin whose target was just set.
	Pinned(p meta.Pin)
	Report() durability.Report
	// Object returns not_found for an object without a target.
	Object(root b3.Root, explain bool) (durability.ObjectReport, error)
	// Unmet returns those of the objects that have not all their copies.
	Unmet(roots []b3.Root) []b3.Root
	// HandOver has the node hand its copies over to other members until StopHandingOver. Both are durable when they
	// return.
	HandOver() error
	StopHandingOver() error
	Handover() durability.Handover
	// Resume has copies sent although many members vanished together, and returns how many are silent now.
	Resume() (silent int)
}

const (
	// metPage is how many objects are asked for at once.
	metPage = 1024
	// lookFirst and lookLast are the shortest and the longest wait between two looks at the copies of an object.
	lookFirst = 50 * time.Millisecond
	lookLast  = time.Second / 4
	// walkEvery is the longest time between two looks at the whole tree: others look at what had no copies then.
	walkEvery = 5 * time.Second
	// stuckAfter is how long no more copies come until it is looked at whether they ever will.
	stuckAfter = 30 * time.Second
	// clusterWait is how long members have to be found, or to come back, before a target is called out of reach.
	clusterWait = 5 * time.Second
)

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
		Key: root, Size: o.Size, Target: api.Target{RF: o.Wanted}, Wanted: o.Wanted, Observed: o.Observed, Short: o.Since,
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

// pieceText says what a member holds of a coded object.
func pieceText(o durability.ObjectReport, c plan.Copy) string {
	switch {
	case o.Coded == nil || c.State == plan.StateAbsent || c.State == plan.StateUnknown:
		return ""
	case c.Piece == plan.Whole:
		return "whole"
	}
	return fmt.Sprintf("shard %d", c.Piece.Shard()+1)
}

// AwaitCopies implements api.Node.
func (a *Node) AwaitCopies(ctx context.Context, key string, progress api.ProgressFunc) (api.Placed, error) {
	if a.deps.Copies == nil {
		return api.Placed{}, errNoCluster
	}
	root, err := a.reader.Root(ctx, key)
	if err != nil {
		return api.Placed{}, err
	}
	begun, wait := time.Now(), lookFirst
	most, moved := 0, begun // the most objects that had their copies, and when that was seen first
	var p api.Placed
	var unmet []b3.Root
	for walked := (time.Time{}); ; {
		n := len(unmet)
		unmet = a.deps.Copies.Unmet(unmet)
		p.Met += n - len(unmet)
		if len(unmet) == 0 || time.Since(walked) > walkEvery {
			walked = time.Now()
			if p, unmet, err = a.placed(ctx, root); err != nil || len(unmet) == 0 {
				return p, err
			}
		}
		if p.Met > most {
			most, moved = p.Met, time.Now()
		}
		if time.Since(moved) > stuckAfter {
			if n := a.deps.Copies.Report().Unplanned; n > 0 {
				return p, status.Errorf(status.NotReady, "%d of %d objects have their copies, and %d objects with a target are "+
					"more than one node plans: pin a part of them on another node of the cluster", p.Met, p.Objects, n)
			}
		}
		if progress != nil {
			progress(api.Progress{Objects: int64(p.Met), TotalObjects: int64(p.Objects)})
		}
		if time.Since(begun) > clusterWait {
			if err := a.outOfReach(root, p); err != nil {
				return p, err
			}
		}
		if err := limits.Sleep(ctx, wait); err != nil {
			return p, err
		}
		wait = min(2*wait, lookLast)
	}
}

// placed counts the objects of a tree, and returns those that have not their copies, at most maxSized. What is not
// stored here does not count.
func (a *Node) placed(ctx context.Context, root b3.Root) (p api.Placed, unmet []b3.Root, err error) {
	p.Root = root
	seen := map[b3.Root]struct{}{root: {}}
	page := []b3.Root{root}
	count := func() error {
		has, err := a.st.Has(ctx, page)
		if err != nil {
			return err
		}
		here := make([]b3.Root, 0, len(page))
		for i, r := range page {
			if has[i] == b3.Complete {
				here = append(here, r)
			}
		}
		p.Objects += len(here)
		left := a.deps.Copies.Unmet(here)
		p.Met += len(here) - len(left)
		unmet = append(unmet, left[:min(len(left), maxSized-len(unmet))]...)
		page = page[:0]
		return nil
	}
	for r, err := range a.st.Collector().Below(ctx, root) {
		if err != nil {
			return p, nil, err
		}
		if _, again := seen[r]; again {
			continue
		}
		if len(seen) < maxSized {
			seen[r] = struct{}{}
		}
		if page = append(page, r); len(page) == metPage {
			if err := count(); err != nil {
				return p, nil, err
			}
		}
	}
	err = count()
	return p, unmet, err
}

// outOfReach returns not_ready if the members that are there cannot hold as many copies as are asked for.
func (a *Node) outOfReach(root b3.Root, p api.Placed) error {
	o, err := a.deps.Copies.Object(root, true)
	if err != nil {
		return nil //nolint:nilerr // it is not planned yet
	}
	might := 0
	why := map[string]int{}
	for _, m := range o.Place {
		// A member that has a copy counts even if it takes no more.
		holds := slices.ContainsFunc(o.Copies, func(c plan.Copy) bool { return c.ID == m.ID && c.State == plan.StateProved })
		if m.Why == "" || holds {
			might++
		} else {
			why[m.Why]++
		}
	}
	if might >= o.Wanted {
		return nil
	}
	what := "copies"
	if o.Coded != nil {
		what = "shards"
	}
	return status.Errorf(status.NotReady, "%d of %d objects have their %d %s, and this cluster has %d nodes that can "+
		"hold one%s. Those so far stay, and the node goes on by itself; `allium durability` says how far it is",
		p.Met, p.Objects, o.Wanted, what, might, reasonsOf(why))
}

// reasonsOf says why members hold no copy, by reason.
func reasonsOf(why map[string]int) (reasons string) {
	for _, w := range slices.Sorted(maps.Keys(why)) {
		reasons += fmt.Sprintf("; of others: %s (%d)", w, why[w])
	}
	return reasons
}
