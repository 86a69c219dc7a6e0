package upkeep

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/cluster/plan"
	"allium/store/meta"
)

// dropper removes copies of this node.
type dropper struct{ *shared }

// drop removes the pins of the cluster from an object. Pins of people stay.
func (d *dropper) drop(ctx context.Context, e *entry) {
	d.inv.mu.Lock()
	if d.inv.active[e.Root] != e || e.Answer() == plan.Proved {
		d.inv.mu.Unlock()
		return // a member told of it since it was planned
	}
	e.dropping = true
	labels := []string{meta.ClusterLabel}
	for _, a := range e.Asked() {
		labels = append(labels, originLabel(a.Origin))
	}
	wanted := e.Wanted()
	d.inv.mu.Unlock()
	defer d.inv.with(e, func(time.Time) { e.dropping = false }) // it is still here
	if pinned, err := d.pinnedBy(ctx, e.Root, labels); err == nil && !pinned && e.coded == nil {
		d.inv.with(e, func(time.Time) { d.inv.forget(e) }) // it is this node's own
		return
	}
	err := d.trim(ctx, e.Root, func() error {
		return errors.Join(d.unpin(ctx, e.Root, labels), d.unpinPieces(ctx, e))
	})
	if err != nil {
		if ctx.Err() == nil {
			d.deps.Log.Warn("a copy that nobody needs could not be dropped", "root", e.Root, "err", err)
		}
		return
	}
	d.inv.with(e, func(time.Time) { d.inv.forget(e) })
	d.deps.Log.Info("dropped a copy that nobody needs", "root", e.Root, "copies_wanted", wanted)
}

// trim drops a copy by unpin, records that and counts it.
func (d *dropper) trim(ctx context.Context, root b3.Root, unpin func() error) error {
	ended, err := d.deps.Dropping(ctx, root)
	if err == nil {
		err = unpin()
		ended(err)
	}
	if ctx.Err() == nil {
		d.deps.Repairs.Trimmed(err)
	}
	if err == nil {
		d.m.dropped.Inc()
	}
	return err
}

// unpinPieces removes the cluster's pins of what the node holds of a coded object, as far as nothing else that is
// planned needs it.
func (d *dropper) unpinPieces(ctx context.Context, e *entry) error {
	if e.coded == nil {
		return nil
	}
	d.inv.mu.Lock()
	pieces := slices.DeleteFunc(e.coded.Pieces(), func(root b3.Root) bool {
		return d.inv.peek(root) != nil || d.inv.pieces[root] > 1
	})
	d.inv.mu.Unlock()
	for _, root := range pieces {
		if err := d.unpin(ctx, root, []string{meta.ClusterLabel}); err != nil {
			return err
		}
	}
	return nil
}

// pinnedBy reports whether an object has a pin with one of the labels.
func (d *dropper) pinnedBy(ctx context.Context, root b3.Root, labels []string) (bool, error) {
	for _, label := range labels {
		if has, err := d.deps.Store.HasPin(ctx, root, label); err != nil || has {
			return has, err
		}
	}
	return false, nil
}

// unpin removes pins of an object that are there.
func (d *dropper) unpin(ctx context.Context, root b3.Root, labels []string) error {
	for _, label := range labels {
		if err := d.deps.Store.Unpin(ctx, root, label); err != nil && status.Of(err) != status.NotFound {
			return err
		}
	}
	return nil
}

func originLabel(id plan.ID) string { return meta.OriginLabel(peer.ID(id).String()) }
