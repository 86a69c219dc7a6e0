package local

import (
	"context"
	"io"

	"allium/gateway/api"
	gatewayupload "allium/gateway/upload"
	"allium/node/files"
	"allium/node/files/archive"
	"allium/node/local/opener"
	"allium/protocols/b3"
	"allium/protocols/capability"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
)

// Uploads is the store for the uploads of a node's gateway. It implements the Store
// of gateway/upload.
type Uploads struct {
	api *stored
	// shut returns an error while the node accepts no uploads.
	shut func() error
}

var _ gatewayupload.Store = Uploads{}

// Uploads returns the store for the uploads of the node's gateway. shut returns an
// error while the node accepts no uploads.
func (a *Node) Uploads(shut func() error) Uploads { return Uploads{api: &a.stored, shut: shut} }

// admit returns an error while the node cannot or will not store an upload.
func (u Uploads) admit() error {
	if u.api.cfg.Seed {
		return opener.ErrSeed
	}
	if err := u.api.st.UnknownLoss(); err != nil {
		return err
	}
	return u.shut()
}

// Present implements the Store of gateway/upload.
func (u Uploads) Present(ctx context.Context, root b3.Root, o gatewayupload.Options) (api.Stored, bool, error) {
	if u.api.cfg.Seed {
		return api.Stored{}, false, opener.ErrSeed
	}
	defer u.api.st.HoldGC()() // until the pin is set
	has, err := u.api.st.Touch(ctx, []b3.Root{root})
	if err != nil || has[0] != b3.Complete {
		return api.Stored{}, false, err
	}
	info, err := u.api.st.Stat(ctx, root)
	switch status.Of(err) {
	case status.OK:
	case status.NotFound, status.Corrupt:
		return api.Stored{}, false, nil
	default:
		return api.Stored{}, false, err
	}
	s := api.Stored{Root: root, Size: info.Size, Pinned: o.Pin}
	if o.Pin {
		err = u.api.pin(ctx, root, store.PinOptions{Label: o.Label}, nil)
	}
	return s, err == nil, err
}

// Put implements the Store of gateway/upload.
func (u Uploads) Put(ctx context.Context, r io.Reader, o gatewayupload.Options) (api.Stored, error) {
	if err := u.admit(); err != nil {
		return api.Stored{}, err
	}
	defer u.api.st.HoldGC()() // until the pin is set
	opt := store.PutOptions{Expect: o.Expect, Size: o.Length}
	if o.Pin {
		if err := checkLabel(o.Label); err != nil {
			return api.Stored{}, err
		}
		opt.Charge = u.api.st.Quotas().Charge(o.Label)
		defer opt.Charge.Release()
	}
	info, err := u.api.st.Put(ctx, r, opt)
	if err != nil {
		return api.Stored{}, err
	}
	if o.Pin {
		err = u.api.pin(ctx, info.Root, store.PinOptions{Label: o.Label, Charge: opt.Charge}, nil)
	}
	return api.Stored{Root: info.Root, Size: info.Size, New: info.New, Pinned: o.Pin}, err
}

// treeName is the name of an uploaded directory while it is added. Only its entries have names.
const treeName = "directory"

// PutTree implements the Store of gateway/upload.
func (u Uploads) PutTree(
	ctx context.Context, t gatewayupload.Tree, o gatewayupload.Options,
) (added api.Added, err error) {
	if err := u.admit(); err != nil {
		return added, err
	}
	if err := checkLabel(o.Label); o.Pin && err != nil {
		return added, err
	}
	put := func(in archive.Reader) error {
		run := func(st files.Store, each func(context.Context, api.Added) error) error {
			return u.api.archives.Add(ctx, st, in, treeName, t.OnBadEntry, files.Reports{Count: t.Count}, each)
		}
		for got, err := range u.api.add(api.AddOptions{NoPin: !o.Pin, Label: o.Label}, run) {
			if err != nil {
				return err
			}
			added, added.Name = got, "."
		}
		if added.Root.IsZero() {
			return status.Errorf(status.BadRequest, "the archive is empty. Send a directory with at least one entry")
		}
		return nil
	}
	switch t.Format {
	case gatewayupload.Zip:
		err = u.api.archives.Zip(ctx, t.Body, t.Ratio, func(z *archive.Zip) error {
			if t.Count != nil { // before an entry is stored
				if err := t.Count(z.Unpacked()); err != nil {
					return err
				}
				t.Count = nil
			}
			return put(z)
		})
	case gatewayupload.Form:
		err = put(archive.NewFiles(t.Next))
	default:
		err = put(archive.NewTar(t.Body))
	}
	return added, err
}

// New implements the Store of gateway/upload.
func (u Uploads) New(
	ctx context.Context, by capability.Grant, o gatewayupload.Options,
) (gatewayupload.Upload, error) {
	if err := u.admit(); err != nil {
		return gatewayupload.Upload{}, err
	}
	if err := checkLabel(o.Label); err != nil {
		return gatewayupload.Upload{}, err
	}
	up, err := u.api.st.Uploads().New(ctx, capabilityOf(by), meta.UploadOptions{
		Length: o.Length, Expect: o.Expect, Label: o.Label, Pin: o.Pin,
	})
	return uploadOf(up), err
}

// Upload implements the Store of gateway/upload.
func (u Uploads) Upload(ctx context.Context, id string) (gatewayupload.Upload, error) {
	up, err := u.api.st.Uploads().Get(ctx, id)
	return uploadOf(up), err
}

// Append implements the Store of gateway/upload.
func (u Uploads) Append(
	ctx context.Context, by capability.Grant, id string, offset int64, r io.Reader,
) (gatewayupload.Upload, error) {
	if err := u.admit(); err != nil {
		return gatewayupload.Upload{}, err
	}
	if err := checkLabel(by.Label); err != nil {
		return gatewayupload.Upload{}, err
	}
	up, err := u.api.st.Uploads().Append(ctx, capabilityOf(by), id, offset, r)
	if err == nil && !up.Root.IsZero() && up.Pin {
		u.api.node.pinned(ctx, up.Root, up.Label, false) // the store has set the pin
	}
	return uploadOf(up), err
}

// Remove implements the Store of gateway/upload.
func (u Uploads) Remove(ctx context.Context, id string) error {
	return u.api.st.Uploads().Remove(ctx, id)
}

// capabilityOf converts a capability for the store.
func capabilityOf(by capability.Grant) resumable.Capability {
	return resumable.Capability{ID: by.ID, Until: by.Expires, Label: by.Label}
}

// uploadOf converts an upload of the store for the gateway.
func uploadOf(up resumable.Info) gatewayupload.Upload {
	t := gatewayupload.Upload{
		ID: up.ID, Offset: up.Offset, Expires: up.Expires,
		Options: gatewayupload.Options{Length: up.Length, Expect: up.Expect, Pin: up.Pin, Label: up.Label},
	}
	if !up.Root.IsZero() {
		t.Stored = &api.Stored{Root: up.Root, Size: up.Length, New: up.New, Pinned: up.Pin}
	}
	return t
}
