// Package publish decides what a node tells the network that it has: new pins at once, by
// gossip and to the DHT, and all that is announced again before it expires.
package publish

import (
	"context"
	"errors"
	"iter"
	"log/slog"

	"allium/node/objects"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/hints"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
)

// Deps is what a Publisher reads.
type Deps struct {
	Store  *store.Store
	Denied func(b3.Root) error // by the denylist; what it denies is not announced
	Policy dht.Announce
	Log    *slog.Logger
}

// Publisher announces what a store has.
type Publisher struct {
	deps  Deps
	hints *hints.Service // set by Join, like dht
	dht   *dht.Service
}

// New returns a publisher that announces nothing yet.
func New(deps Deps) *Publisher { return &Publisher{deps: deps} }

// Join names what is announced by. It comes before Announce, Tell and Withdraw.
func (b *Publisher) Join(h *hints.Service, d *dht.Service) { b.hints, b.dht = h, d }

// Roots lists what is published and published again before it expires, as
// dht.announce says. An object may come more than once.
func (b *Publisher) Roots(ctx context.Context) func() iter.Seq[b3.Root] {
	return func() iter.Seq[b3.Root] {
		return func(yield func(b3.Root) bool) {
			yield = b.unlessDenied(yield)
			var err error
			if b.deps.Policy == dht.AnnounceAll {
				err = b.stored(ctx, yield)
			} else {
				err = b.pinned(ctx, yield)
			}
			if err != nil && !errors.Is(err, errEnough) {
				b.deps.Log.Warn("what is to be announced cannot be listed to the end", "err", err)
			}
		}
	}
}

// errEnough ends a listing whose reader has left.
var errEnough = errors.New("node: enough")

// stored lists every object that is whole.
func (b *Publisher) stored(ctx context.Context, yield func(b3.Root) bool) error {
	for o, err := range b.deps.Store.List(ctx) {
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
func (b *Publisher) pinned(ctx context.Context, yield func(b3.Root) bool) error {
	var last b3.Root // one object may have several pins
	for p, err := range b.deps.Store.Pins(ctx) {
		if err != nil {
			return err
		}
		if p.Root != last && !yield(p.Root) {
			return errEnough
		}
		last = p.Root
		if !p.Recursive || b.deps.Policy != dht.AnnouncePinned {
			continue
		}
		if err := b.below(ctx, p.Root, yield); errors.Is(err, errEnough) {
			return err
		} else if err != nil {
			b.deps.Log.Debug("what a pinned directory names is not announced", "root", p.Root, "err", err)
		}
	}
	return nil
}

// below lists what a directory names; nothing when root is none.
func (b *Publisher) below(ctx context.Context, root b3.Root, yield func(b3.Root) bool) error {
	return manifest.Walk(ctx, objects.Manifests(objects.Local{Store: b.deps.Store}), root, func(_ string, e manifest.Entry) error {
		if e.Kind != manifest.Link && !yield(e.Root) {
			return errEnough
		}
		return nil
	})
}

// Announce publishes a new pin at once, by gossip and to the DHT, and what hangs
// below it if that is announced too. What there is no room for comes with the next listing.
func (b *Publisher) Announce(ctx context.Context, root b3.Root) {
	if b.deps.Denied(root) != nil {
		return
	}
	b.Tell(root)
	err := b.dht.Announce(root)
	if err == nil && b.deps.Policy != dht.AnnounceRoots {
		_ = b.below(ctx, root, b.unlessDenied(func(r b3.Root) bool { // not a directory: there is nothing below it
			b.Tell(r)
			err = b.dht.Announce(r)
			return err == nil
		}))
	}
	if err != nil {
		b.deps.Log.Warn("a new pin is not announced as a whole before the next listing of what is announced", "root", root, "err", err)
	}
}

// Tell announces an object by gossip. What there is no room for is found
// through the DHT.
func (b *Publisher) Tell(root b3.Root) {
	if err := b.hints.Announce(root); err != nil {
		b.deps.Log.Debug("an object is not announced by gossip", "root", root, "reason", status.Of(err))
	}
}

// Withdraw takes the announcement of an object back that is pinned no more,
// unless it is announced for being here. What hangs below it is forgotten when
// its announcement ends.
func (b *Publisher) Withdraw(ctx context.Context, root b3.Root) {
	if b.deps.Policy == dht.AnnounceAll && b.Has(ctx, root) {
		return
	}
	if err := b.hints.Withdraw(root); err != nil {
		b.deps.Log.Debug("an announcement is not taken back, and ends by itself", "root", root, "reason", status.Of(err))
	}
}

// unlessDenied yields what may be announced.
func (b *Publisher) unlessDenied(yield func(b3.Root) bool) func(b3.Root) bool {
	return func(root b3.Root) bool { return b.deps.Denied(root) != nil || yield(root) }
}

// Has says whether the store holds an object, whole, that may be served.
func (b *Publisher) Has(ctx context.Context, root b3.Root) bool {
	if b.deps.Denied(root) != nil {
		return false
	}
	_, err := b.deps.Store.Stat(ctx, root)
	return err == nil
}
