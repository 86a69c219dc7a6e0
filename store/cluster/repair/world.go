package repair

import (
	"context"
	"errors"
	"io"
	"iter"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/resolver"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
)

// world is the store and the resolver of a running node. Its ops are what Repairs calls.
type world struct {
	store    *store.Store
	resolver *resolver.Resolver
}

func (n world) ops() ops {
	return ops{
		wanted: func(ctx context.Context, root b3.Root) (bool, error) {
			return n.store.UsedOrPinned(ctx, root, usedFor)
		},
		fetch: n.refetch,
		promiseOps: promiseOps{
			follow: n.followPromises, promised: n.promised, restored: n.store.Restored,
		},
		corrupt: func(ctx context.Context) iter.Seq2[b3.Root, error] {
			return func(yield func(b3.Root, error) bool) {
				if n.store.Stats().Corrupt == 0 {
					return // no need to read the whole list
				}
				for info, err := range n.store.List(ctx) {
					if (err != nil || info.Corrupt) && !yield(info.Root, err) {
						return
					}
				}
			}
		},
	}
}

// refetch fetches an object that is damaged or missing, at the rate at which took returns.
func (n world) refetch(ctx context.Context, root b3.Root, ahead int64, took func(n int) error) error {
	want := resolver.Whole(resolver.Sources{})
	want.Ahead = ahead
	c, err := n.resolver.Open(ctx, root, want)
	if err != nil {
		return err
	}
	buf := make([]byte, b3.GroupSize)
	for err == nil {
		var k int
		if k, err = c.Read(buf); k > 0 {
			if e := took(k); e != nil {
				err = e
			}
		}
	}
	// c stays open until Fetch has joined the fetch, so the bytes that have arrived are kept.
	if errors.Is(err, io.EOF) {
		_, err = n.resolver.Fetch(ctx, root, resolver.FetchOptions{})
	}
	_ = c.Close() // it was only read
	return err
}

// followPromises calls lost for each lost object that a pin promises, and settles the
// damage whose objects are all back. Then it calls lost for each object that open damage
// names and that is still lost. It stops at the first error. Without must it does nothing
// if the store has no open damage.
func (n world) followPromises(ctx context.Context, must bool, lost func(gc.Lost) error) error {
	if open, _ := n.store.OpenDamage(); open == 0 && !must {
		return nil
	}
	noneLost := true
	err := n.store.Collector().FindLost(ctx, gc.FindLostOptions{}, func(l gc.Lost) error {
		noneLost = false
		return lost(l)
	})
	if err != nil {
		return err
	}
	if _, err := n.store.SettleDamage(ctx, noneLost); err != nil {
		return err
	}
	for _, d := range n.store.Damage() {
		if d.State != meta.DamageOpen {
			continue
		}
		for _, root := range d.Roots {
			l := gc.Lost{Root: root}
			if ok, err := n.promised(ctx, l); err != nil {
				return err
			} else if !ok {
				continue
			}
			if err := lost(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// promised reports whether an object that a pin promises, or that open damage names, is
// still lost.
func (n world) promised(ctx context.Context, l gc.Lost) (bool, error) {
	if !l.Pin.Root.IsZero() {
		return n.store.Collector().StillLost(ctx, l)
	}
	_, err := n.store.Stat(ctx, l.Root)
	if o := status.Of(err); o == status.NotFound || o == status.Corrupt {
		return true, nil
	}
	return false, err
}
