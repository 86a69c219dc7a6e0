package node

import (
	"context"
	"errors"
	"iter"

	"allium/gateway"
	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// Verify implements client.Store.
func (a *storeAPI) Verify(ctx context.Context, key string) iter.Seq2[client.Verified, error] {
	return func(yield func(client.Verified, error) bool) {
		var err error
		if key == "" {
			err = a.verifyAll(ctx, yield)
		} else {
			err = a.verifyTree(ctx, key, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(client.Verified{}, err)
		}
	}
}

func (a *storeAPI) verifyAll(ctx context.Context, yield func(client.Verified, error) bool) error {
	for info, err := range a.st.List(ctx) {
		if err != nil {
			return err
		}
		if _, err := a.verify(ctx, info.Root, info.Size, yield); err != nil {
			return err
		}
	}
	return nil
}

// verifyTree proves what key names and, if that is a directory, everything
// below it. It reads the store alone: what is missing is a finding, not
// something to fetch.
func (a *storeAPI) verifyTree(ctx context.Context, key string, yield func(client.Verified, error) bool) error {
	root, err := a.root(ctx, key)
	if err != nil {
		return err
	}
	info, err := a.st.Stat(ctx, root)
	if err != nil && status.Of(err) != status.Corrupt { // known to be damaged: reading it again says what is wrong
		return err
	}
	if good, err := a.verify(ctx, root, info.Size, yield); err != nil || !good {
		return err
	}
	local := storeAPI{st: a.st, objects: localObjects{a.st}}
	c, err := local.objects.Open(ctx, root, gateway.OpenOptions{})
	if err != nil {
		return err
	}
	kind, err := kindOfContent(ctx, c)
	if err := errors.Join(err, c.Close()); err != nil || kind != client.Directory {
		return err
	}
	err = manifest.Walk(ctx, local.getter(), root, func(_ string, e manifest.Entry) error {
		if e.Kind == manifest.Link {
			return nil
		}
		_, err := a.verify(ctx, e.Root, e.Size, yield)
		return err
	})
	if o := status.Of(err); o == status.Corrupt || o == status.NotFound {
		return nil // the directory that ends the walk has been yielded as damaged or missing
	}
	return err
}

// verify reads one object and yields the result: damage is a value, anything
// else an error.
func (a *storeAPI) verify(ctx context.Context, root b3.Root, size int64, yield func(client.Verified, error) bool) (good bool, err error) {
	v := client.Verified{Root: root, Size: size}
	err = a.st.Verify(ctx, root)
	switch status.Of(err) {
	case status.OK:
		good = true
	case status.Corrupt, status.NotFound: // not_found: never fetched, or deleted since it was listed
		r := status.ReportOf(err)
		v.Error = &r
	default:
		return false, err
	}
	if !yield(v, nil) {
		return false, errStopped
	}
	return good, nil
}
