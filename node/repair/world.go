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

// world is what repairs do in a running node.
type world struct {
	store    *store.Store
	resolver *resolver.Resolver
}

func (n world) ops() ops {
	return ops{
		wanted: func(ctx context.Context, root b3.Root) (bool, error) { return n.store.Wanted(ctx, root, usedFor) },
		fetch:  n.refetch,
		promiseOps: promiseOps{
			follow: n.followPromises, promised: n.promised, restored: n.store.Restored,
		},
		corrupt: func(ctx context.Context) iter.Seq2[b3.Root, error] {
			return func(yield func(b3.Root, error) bool) {
				if n.store.Stats().Corrupt == 0 {
					return // known without a look at each
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

// refetch fetches an object that is damaged or missing, as fast as took lets it.
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
	// The reader's seat keeps what has come until the fetch has its own.
	if errors.Is(err, io.EOF) {
		_, err = n.resolver.Fetch(ctx, root, resolver.FetchOptions{})
	}
	_ = c.Close() // it was only read
	return err
}

// followPromises walks what pins promise, then goes through what open damage
// names, and ends the damage of which everything is back.
func (n world) followPromises(ctx context.Context, must bool, lost func(gc.Lost) error) error {
	if open, _ := n.store.OpenDamage(); open == 0 && !must {
		return nil
	}
	whole := true
	err := n.store.Collector().Promises(ctx, gc.PromiseOptions{}, func(l gc.Lost) error {
		whole = false
		return lost(l)
	})
	if err != nil {
		return err
	}
	if _, err := n.store.SettleDamage(ctx, whole); err != nil {
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

// promised says whether an object that a pin promises, or that open damage
// names, is still lost.
func (n world) promised(ctx context.Context, l gc.Lost) (bool, error) {
	if !l.Pin.Root.IsZero() {
		return n.store.Collector().Promised(ctx, l)
	}
	_, err := n.store.Stat(ctx, l.Root)
	if o := status.Of(err); o == status.NotFound || o == status.Corrupt {
		return true, nil
	}
	return false, err
}
