package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
)

// Pin implements api.Store.
func (a *stored) Pin(ctx context.Context, key string, o api.PinOptions) (api.Pin, error) {
	root, err := a.reader.Root(ctx, key)
	if err != nil {
		return api.Pin{}, err
	}
	if err := a.pin(ctx, root, store.PinOptions{Recursive: o.Recursive, Label: o.Label}, o.Target); err != nil {
		return api.Pin{}, err
	}
	pins, err := a.pinsOf(ctx, root)
	if err != nil {
		return api.Pin{}, err
	}
	for _, p := range pins {
		if p.Label == o.Label {
			return p, nil
		}
	}
	return api.Pin{}, status.Errorf(status.Conflict, "the new pin of %s was removed by another request", root)
}

// checkLabel returns bad_request for a label that people may not use.
func checkLabel(label string) error {
	if meta.OfCluster(label) {
		return status.Errorf(status.BadRequest,
			"the label %q is for what other nodes of the cluster keep on this one. Choose another label", label)
	}
	return meta.CheckLabel(label)
}

// pin pins an object, sets the target of the pin unless t is nil, and tells the node.
func (a *stored) pin(ctx context.Context, root b3.Root, o store.PinOptions, t *api.Target) error {
	if err := checkLabel(o.Label); err != nil {
		return err
	}
	byLabel := targetFor(a.cfg.Targets[o.Label])
	if t == nil {
		t = byLabel
	}
	want, err := a.wantedTarget(t)
	if err != nil {
		return err
	}
	if err := a.st.UnknownLoss(); err != nil {
		return err
	}
	o.Target = want // so that the pin is never seen without it
	if err := a.st.Pin(ctx, root, o); err != nil {
		return err
	}
	a.node.pinned(ctx, root, o.Label, o.Recursive)
	if t == nil {
		return nil
	}
	target, err := a.st.SetTarget(ctx, root, o.Label, want) // removes one, if none is wanted
	if err != nil {
		return fmt.Errorf("it is pinned, but its target was not set: %w", err)
	}
	err = a.node.targeted(ctx, meta.Pin{Root: root, Label: o.Label, Recursive: o.Recursive, Target: target})
	if err != nil && t != byLabel {
		return fmt.Errorf("it is pinned, but its target is not met yet: %w", err)
	}
	return nil
}

// wantedTarget returns a target as the store keeps it. The error is of one that no pin can have, or that this node
// cannot meet as it is set up.
func (a *stored) wantedTarget(t *api.Target) (meta.Target, error) {
	switch {
	case t == nil || !t.Wants():
		return meta.Target{}, nil
	case a.cfg.NoCluster:
		return meta.Target{}, errNoCluster
	case t.EC != "" && t.RF != 0:
		return meta.Target{}, status.Errorf(status.BadRequest,
			"a pin asks for copies or for an erasure coding, not for both")
	case t.EC != "":
		return meta.ParseShards(t.EC)
	case t.RF < 1 || t.RF > meta.MaxCopies:
		return meta.Target{}, status.Errorf(status.BadRequest, "%d copies: ask for 1 to %d, or 0 for no target", t.RF,
			meta.MaxCopies)
	}
	return meta.Target{Copies: t.RF}, nil
}

// targetFor returns a target of the store as the API has it, nil if it asks for nothing.
func targetFor(t meta.Target) *api.Target {
	switch {
	case t.Copies > 0:
		return &api.Target{RF: t.Copies}
	case t.Data > 0:
		return &api.Target{EC: fmt.Sprintf("%d+%d", t.Data, t.Parity)}
	}
	return nil
}

// errNoCluster refuses what only a member of a cluster can do.
var errNoCluster = status.Errorf(status.Unsupported, "this node joins no cluster, as it keeps its content in RAM or "+
	"is a seed, so nobody keeps copies for it; use a node with its store on disk or in a bucket")

// removePin removes one pin and tells the node.
func (a *stored) removePin(ctx context.Context, root b3.Root, label string) error {
	if err := a.st.Unpin(ctx, root, label); err != nil {
		return err
	}
	a.node.unpinned(root, label)
	return nil
}

// Unpin implements api.Store.
func (a *stored) Unpin(ctx context.Context, key, label string) error {
	_, err := a.unpin(ctx, key, label)
	return err
}

// unpin is Unpin, and returns the address that key names.
func (a *stored) unpin(ctx context.Context, key, label string) (b3.Root, error) {
	root, err := a.reader.Root(ctx, key)
	if err != nil {
		return root, err
	}
	if origin, err := peer.Decode(meta.Origin(label)); err == nil {
		return root, a.node.renounce(ctx, root, origin)
	}
	if label != "" {
		if err := checkLabel(label); err != nil {
			return root, err
		}
		return root, a.removePin(ctx, root, label)
	}
	return root, a.unpinAll(ctx, root)
}

// unpinAll removes every pin of an object that people have set, or what this node asked for before it lost its pins.
func (a *stored) unpinAll(ctx context.Context, root b3.Root) error {
	pins, err := a.pinsOf(ctx, root)
	if err != nil {
		return err
	}
	var others []string // for which this node keeps it
	pins = slices.DeleteFunc(pins, func(p api.Pin) bool {
		if origin := meta.Origin(p.Label); origin != "" && p.Target != nil {
			others = append(others, origin)
		}
		return meta.OfCluster(p.Label)
	})
	if len(pins) == 0 {
		err = a.node.renounce(ctx, root, "")
		if err == nil || status.Of(err) != status.NotFound && !errors.Is(err, errNoCluster) &&
			!errors.Is(err, errNoNode) {
			return err
		}
	}
	switch {
	case len(pins) > 0:
	case len(others) > 0:
		return status.Errorf(status.NotFound,
			"%s has no pin of this node, which keeps it for %s: run `allium pin rm` there."+
				" If that node is lost, run it here with `--label %s`, and on each other node that holds the object",
			root, strings.Join(others, " and "), meta.OriginLabel(others[0]))
	default:
		return status.Errorf(status.NotFound,
			"%s is not pinned; `allium pin ls` lists the pins. If this node asked for "+
				"copies of it and lost its store, pin it again with `--rf 1`, and that pin can be removed", root)
	}
	for _, p := range pins {
		if err := a.removePin(ctx, root, p.Label); err != nil {
			return fmt.Errorf("label %q: %w", p.Label, err)
		}
	}
	return nil
}

// pinsOf lists the pins of one object.
func (a *stored) pinsOf(ctx context.Context, root b3.Root) ([]api.Pin, error) {
	pins := []api.Pin{}
	for p, err := range a.st.PinsOf(ctx, root) {
		if err != nil {
			return nil, err
		}
		pins = append(pins, pinOf(p))
	}
	return pins, nil
}

// maxSized is the maximum number of objects below pins that one listing of pins looks at for their sizes.
const maxSized = 1 << 16

// Pins implements api.Store.
func (a *stored) Pins(ctx context.Context) iter.Seq2[api.Pin, error] {
	return func(yield func(api.Pin, error) bool) {
		left := maxSized
		for p, err := range a.st.Pins(ctx) {
			pin := pinOf(p)
			if err == nil {
				pin.Size, pin.AtLeast = a.sizeOf(ctx, p, &left, func(b3.Root) {})
			}
			if !yield(pin, err) || err != nil {
				return
			}
		}
	}
}

// sizeOf returns the bytes that a pin keeps, each object once, from what is stored here. It takes the objects that it
// looks at from left, and calls below with the address of each.
func (a *stored) sizeOf(
	ctx context.Context, p meta.Pin, left *int, below func(b3.Root),
) (size int64, atLeast bool) {
	info, err := a.st.Stat(ctx, p.Root)
	if size = info.Size; err != nil || !p.Recursive {
		return size, err != nil
	}
	for ref, err := range a.st.Collector().Refs(ctx, p.Root) {
		if *left--; *left < 0 || err != nil {
			return size, true
		}
		size += ref.Size
		below(ref.Root)
	}
	return size, false
}

func pinOf(p meta.Pin) api.Pin {
	return api.Pin{
		Root: p.Root, Recursive: p.Recursive, Label: p.Label, Since: p.Created, Target: targetFor(p.Target),
	}
}
