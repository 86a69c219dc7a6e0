package local

import (
	"context"
	"errors"
	"io"
	"iter"

	"allium/gateway/api"
	"allium/internal/ordered"
	"allium/node/files"
	"allium/node/files/archive"
	"allium/node/local/opener"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/quota"
)

// Add implements api.Store.
func (a *stored) Add(
	ctx context.Context, tar io.Reader, o api.AddOptions, progress api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	if o.File != nil {
		return a.AddItems(ctx, files.PassedItems(o.File), o, progress)
	}
	if o.Ordered {
		return a.AddItems(ctx, files.TarItems(tar), o, progress)
	}
	return a.add(o, func(st files.Store, each func(context.Context, api.Added) error) error {
		reports := files.Reports{Progress: progress, Roots: o.Roots, Count: o.Count}
		return a.archives.Add(ctx, st, archive.NewTar(tar), "", o.OnBadEntry, reports, each)
	})
}

// AddItems adds items of this process, without a tar; see Add.
func (a *stored) AddItems(
	ctx context.Context, items files.Items, o api.AddOptions, progress api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	return a.add(o, func(st files.Store, each func(context.Context, api.Added) error) error {
		return files.Add(ctx, st, items, files.Reports{Progress: progress, Roots: o.Roots, Count: o.Count}, each)
	})
}

// add yields the trees that run adds. It pins each tree as o says.
func (a *stored) add(
	o api.AddOptions, run func(files.Store, func(context.Context, api.Added) error) error,
) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		if a.cfg.Seed {
			yield(api.Added{}, opener.ErrSeed)
			return
		}
		if err := a.st.UnknownLoss(); err != nil {
			yield(api.Added{}, err)
			return
		}
		if err := a.checkAdd(o); err != nil {
			yield(api.Added{}, err)
			return
		}
		defer a.st.HoldGC()() // protects the objects of the add until their pins are set
		var charge *quota.Charge
		if !o.NoPin {
			charge = a.st.Quotas().Charge(o.Label)
			defer charge.Release()
		}
		stopped := false
		err := run(treeStore{a.st, charge}, func(ctx context.Context, added api.Added) error {
			if !o.NoPin {
				err := a.pin(ctx, added.Root, store.PinOptions{
					Recursive: added.Kind == api.Directory, Label: o.Label, Charge: charge,
				}, o.Target)
				if err != nil {
					return err
				}
			}
			if !yield(added, nil) {
				stopped = true
				return ordered.ErrStopped
			}
			return nil
		})
		if err != nil && !stopped {
			yield(api.Added{}, err)
		}
	}
}

// checkAdd returns an error for options that no add can meet.
func (a *stored) checkAdd(o api.AddOptions) error {
	switch {
	case !o.NoPin:
		_, err := a.wantedTarget(o.Target)
		return errors.Join(checkLabel(o.Label), err)
	case o.Target != nil:
		return status.Errorf(status.BadRequest,
			"without a pin nothing asks for copies: leave out no_pin, or the target")
	}
	return nil
}

// treeStore is the store for one add.
type treeStore struct {
	st     *store.Store
	charge *quota.Charge // charges new bytes to the label; nil: nothing is charged
}

// Find implements files.Store.
func (t treeStore) Find(ctx context.Context, roots []b3.Root) ([]files.Object, error) {
	found, err := t.st.Find(ctx, roots)
	if err != nil {
		return nil, err
	}
	objects := make([]files.Object, len(found))
	for i, info := range found {
		objects[i] = treeObject(info)
	}
	return objects, nil
}

// Put implements files.Store.
func (t treeStore) Put(ctx context.Context, r io.Reader, size int64) (files.Object, error) {
	info, err := t.st.Put(ctx, r, store.PutOptions{Deferred: true, Charge: t.charge, Size: size})
	return treeObject(info), err
}

// PutBytes implements files.Store.
func (t treeStore) PutBytes(ctx context.Context, p []byte) (files.Object, error) {
	info, err := t.st.PutBytes(ctx, p, store.PutOptions{Deferred: true, Charge: t.charge})
	return treeObject(info), err
}

// Flush implements files.Store.
func (t treeStore) Flush(ctx context.Context) error { return t.st.Flush(ctx) }

func treeObject(i store.Info) files.Object {
	return files.Object{Root: i.Root, Size: i.Size, New: i.New}
}
