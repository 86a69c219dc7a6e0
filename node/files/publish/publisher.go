// Package publish decides which objects a node announces to the network.
//
// Invariants: an object that the denylist names is never announced; dht.announce
// decides whether roots, pinned objects or all stored objects are.
//
// One pin, walked through: the local API calls [Publisher.Announce] with the root of a
// new pin. Announce sends a hint over gossip (Tell) and puts a provider record into the
// DHT; by policy it does so for everything below a directory. Later the DHT calls the
// listing of [Publisher.Roots] and announces each object again before its record
// expires. When the pin is removed, [Publisher.Withdraw] takes the hint back, and this
// node's own copy of the record.
package publish

import (
	"context"
	"errors"
	"iter"

	"allium/gateway/policy"
	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/dht"
	"allium/protocols/hints"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
)

// Deps holds the dependencies of a [Publisher]. No field may be nil.
type Deps struct {
	env.Env

	Store  *store.Store
	Filter policy.Filter // of objects that are announced
	Policy dht.Announce
	Coded  func(yield func(b3.Root) bool) // yields the objects whose shards this node holds; it does not wait
	Held   func(b3.Root) bool             // reports whether an object is one of them
}

// Publisher announces what a store has.
type Publisher struct {
	deps  Deps
	hints *hints.Service // set by Join, like dht
	dht   *dht.Service

	shared *kept[sharedSet]
	also   *kept[sharedSet] // what is shared and to which other recursive pins lead
}

// New returns a publisher that announces nothing yet.
func New(deps Deps) *Publisher {
	deps.Env.SetDefaults()
	return &Publisher{deps: deps, shared: newKept[sharedSet](), also: newKept[sharedSet]()}
}

// Join sets the services that carry announcements. It must be called before Announce,
// Tell and Withdraw.
func (b *Publisher) Join(h *hints.Service, d *dht.Service) { b.hints, b.dht = h, d }

// Roots returns a function that lists the objects to be announced, by the policy of
// dht.announce. An object may be listed more than once. If the store cannot be listed
// to the end, the listing ends early, and that is logged.
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
			if err == nil {
				b.deps.Coded(yield)
			}
			if err != nil && !errors.Is(err, errEnough) {
				b.deps.Log.Warn("the objects to be announced cannot be listed to the end", "err", err)
			}
		}
	}
}

// errEnough ends a listing whose reader wants no more.
var errEnough = errors.New("enough")

// stored lists every complete object that is not damaged.
func (b *Publisher) stored(ctx context.Context, yield func(b3.Root) bool) error {
	for o, err := range b.deps.Store.List(ctx) {
		switch {
		case err != nil:
			return err
		case !o.Corrupt && !b.isOnlyShared(ctx, o.Root) && !yield(o.Root):
			return errEnough
		}
	}
	return nil
}

// pinned lists the pinned objects, and by policy also everything below recursive pins.
// It goes on after a directory that cannot be read.
func (b *Publisher) pinned(ctx context.Context, yield func(b3.Root) bool) error {
	announced := func(p meta.Pin) bool { return p.Label != meta.SharedLabel }
	if b.deps.Policy == dht.AnnouncePinned {
		for root, err := range b.deps.Store.Collector().Kept(ctx, announced) {
			switch {
			case root.IsZero():
				return err
			case err != nil:
				b.deps.Log.Debug("the content of a pinned directory is not announced", "root", root, "err", err)
			case !yield(root):
				return errEnough
			}
		}
		return nil
	}
	var last b3.Root // one object may have several pins
	for p, err := range b.deps.Store.Pins(ctx) {
		if err != nil {
			return err
		}
		if announced(p) && p.Root != last && !yield(p.Root) {
			return errEnough
		}
		last = p.Root
	}
	return nil
}

// Announce announces a new pin at once, over gossip and in the DHT, and by policy also
// everything below it. If the DHT's queue is full, the rest is announced after the next
// listing of Roots, and that is logged.
func (b *Publisher) Announce(ctx context.Context, root b3.Root) {
	if b.deps.Filter.Object(root) != nil {
		return
	}
	b.Tell(root)
	err := b.dht.Announce(root)
	if err == nil && b.deps.Policy != dht.AnnounceRoots {
		for r, missing := range b.deps.Store.Collector().Below(ctx, root) {
			if missing != nil || err != nil {
				break
			}
			if b.deps.Filter.Object(r) == nil {
				b.Tell(r)
				err = b.dht.Announce(r)
			}
		}
	}
	if err != nil {
		b.deps.Log.Warn("a new pin is not announced completely before the next listing of what is announced",
			"root", root, "err", err)
	}
}

// Tell announces an object over gossip. If the queue of gossip is full, no hint is
// sent; peers then find the object through the DHT.
func (b *Publisher) Tell(root b3.Root) {
	if err := b.hints.Announce(root); err != nil {
		b.deps.Log.Debug("an object is not announced by gossip", "root", root, "reason", status.Of(err))
	}
}

// Withdraw takes back the announcement of an object that is not pinned any more, unless
// the policy announces all stored objects and the object is still stored.
// Announcements of objects below it are not taken back; they expire.
func (b *Publisher) Withdraw(ctx context.Context, root b3.Root) {
	if b.deps.Policy == dht.AnnounceAll && b.Has(ctx, root) && !b.isOnlyShared(ctx, root) {
		return
	}
	b.dht.Withdraw(root)
	if err := b.hints.Withdraw(root); err != nil {
		b.deps.Log.Debug("an announcement is not taken back, and expires", "root", root, "reason", status.Of(err))
	}
}

// unlessDenied returns a yield that skips denied objects.
func (b *Publisher) unlessDenied(yield func(b3.Root) bool) func(b3.Root) bool {
	return func(root b3.Root) bool { return b.deps.Filter.Object(root) != nil || yield(root) }
}

// Has reports whether the store has the complete object, the denylist does not name it, and it is not
// only shared.
func (b *Publisher) Has(ctx context.Context, root b3.Root) bool {
	if b.deps.Filter.Object(root) != nil {
		return false
	}
	if b.deps.Held(root) {
		return true
	}
	_, err := b.deps.Store.Stat(ctx, root)
	return err == nil && !b.isOnlyShared(ctx, root)
}
