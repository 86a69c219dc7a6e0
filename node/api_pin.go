package node

import (
	"context"
	"fmt"
	"iter"

	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// Pin implements client.Store.
func (a *storeAPI) Pin(ctx context.Context, key string, o client.PinOptions) (client.Pin, error) {
	root, err := a.root(ctx, key)
	if err != nil {
		return client.Pin{}, err
	}
	if err := a.pin(ctx, root, store.PinOptions{Recursive: o.Recursive, Label: o.Label}); err != nil {
		return client.Pin{}, err
	}
	pins, err := a.pinsOf(ctx, root)
	if err != nil {
		return client.Pin{}, err
	}
	for _, p := range pins {
		if p.Label == o.Label {
			return p, nil
		}
	}
	return client.Pin{}, status.Errorf(status.Conflict, "the pin of %s was removed while it was made", root)
}

func (a *storeAPI) pin(ctx context.Context, root b3.Root, o store.PinOptions) error {
	if err := a.st.Pin(ctx, root, o); err != nil {
		return err
	}
	if a.pinned != nil {
		a.pinned(ctx, root)
	}
	return nil
}

// Unpin implements client.Store.
func (a *storeAPI) Unpin(ctx context.Context, key, label string) error {
	root, err := a.root(ctx, key)
	if err != nil {
		return err
	}
	if label != "" {
		err = a.st.Unpin(ctx, root, label)
	} else {
		err = a.unpinAll(ctx, root)
	}
	if err != nil || a.unpinned == nil {
		return err
	}
	if left, err := a.pinsOf(ctx, root); err == nil && len(left) == 0 {
		a.unpinned(ctx, root)
	}
	return nil
}

// unpinAll removes every pin of an object.
func (a *storeAPI) unpinAll(ctx context.Context, root b3.Root) error {
	pins, err := a.pinsOf(ctx, root)
	if err != nil {
		return err
	}
	if len(pins) == 0 {
		return status.Errorf(status.NotFound, "%s is not pinned; `allium pin ls` lists what is", root)
	}
	for _, p := range pins {
		if err := a.st.Unpin(ctx, root, p.Label); err != nil {
			return fmt.Errorf("label %q: %w", p.Label, err)
		}
	}
	return nil
}

// pinsOf lists the pins of one object.
func (a *storeAPI) pinsOf(ctx context.Context, root b3.Root) ([]client.Pin, error) {
	pins := []client.Pin{}
	for p, err := range a.st.Pins(ctx) {
		if err != nil {
			return nil, err
		}
		if p.Root == root {
			pins = append(pins, pinOf(p))
		}
	}
	return pins, nil
}

// Pins implements client.Store.
func (a *storeAPI) Pins(ctx context.Context) iter.Seq2[client.Pin, error] {
	return func(yield func(client.Pin, error) bool) {
		for p, err := range a.st.Pins(ctx) {
			if !yield(pinOf(p), err) || err != nil {
				return
			}
		}
	}
}

func pinOf(p store.Pin) client.Pin {
	return client.Pin{Root: p.Root, Recursive: p.Recursive, Label: p.Label, Since: p.Created}
}
