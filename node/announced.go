package node

import (
	"context"
	"errors"
	"iter"

	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/manifest"
)

// announced lists what is published and published again before it expires, as
// dht.announce says. An object may come more than once.
func (n *Node) announced(ctx context.Context) func() iter.Seq[b3.Root] {
	return func() iter.Seq[b3.Root] {
		return func(yield func(b3.Root) bool) {
			yield = n.unlessDenied(yield)
			var err error
			if n.cfg.DHT.Announce == dht.AnnounceAll {
				err = n.stored(ctx, yield)
			} else {
				err = n.pinned(ctx, yield)
			}
			if err != nil && !errors.Is(err, errEnough) {
				n.log.Warn("what is to be announced cannot be listed to the end", "err", err)
			}
		}
	}
}

// errEnough ends a listing whose reader has left.
var errEnough = errors.New("node: enough")

// stored lists every object that is whole.
func (n *Node) stored(ctx context.Context, yield func(b3.Root) bool) error {
	for o, err := range n.store.List(ctx) {
		switch {
		case err != nil:
			return err
		case !o.Corrupt && !yield(o.Root):
			return errEnough
		}
	}
	return nil
}

// pinned lists the pinned objects, and what hangs below them if that is
// announced too. A directory that cannot be read does not hide the others.
func (n *Node) pinned(ctx context.Context, yield func(b3.Root) bool) error {
	var last b3.Root // one object may have several pins
	for p, err := range n.store.Pins(ctx) {
		if err != nil {
			return err
		}
		if p.Root != last && !yield(p.Root) {
			return errEnough
		}
		last = p.Root
		if !p.Recursive || n.cfg.DHT.Announce != dht.AnnouncePinned {
			continue
		}
		if err := n.below(ctx, p.Root, yield); errors.Is(err, errEnough) {
			return err
		} else if err != nil {
			n.log.Debug("what a pinned directory names is not announced", "root", p.Root, "err", err)
		}
	}
	return nil
}

// below lists what a directory names; nothing when root is none.
func (n *Node) below(ctx context.Context, root b3.Root, yield func(b3.Root) bool) error {
	local := storeAPI{st: n.store, objects: localObjects{n.store}}
	return manifest.Walk(ctx, local.getter(), root, func(_ string, e manifest.Entry) error {
		if e.Kind != manifest.Link && !yield(e.Root) {
			return errEnough
		}
		return nil
	})
}

// announce publishes a new pin at once, by gossip and to the DHT, and what hangs
// below it if that is announced too. What there is no room for comes with the next listing.
func (n *Node) announce(ctx context.Context, root b3.Root) {
	if n.denylist.At("announce").Object(root) != nil {
		return
	}
	n.tell(root)
	err := n.dht.Announce(root)
	if err == nil && n.cfg.DHT.Announce != dht.AnnounceRoots {
		_ = n.below(ctx, root, n.unlessDenied(func(r b3.Root) bool { // not a directory: there is nothing below it
			n.tell(r)
			err = n.dht.Announce(r)
			return err == nil
		}))
	}
	if err != nil {
		n.log.Warn("a new pin is not announced as a whole before the next listing of what is announced", "root", root, "err", err)
	}
}
