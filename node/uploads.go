package node

import (
	"context"
	"io"

	"allium/gateway"
	"allium/gateway/client"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
)

// uploads is the store as the gateway writes it. It implements gateway.Uploads.
type uploads struct {
	api *storeAPI
	// shut is the gate that keeps writes out while queues are nearly full.
	shut func() Reading
}

var _ gateway.Uploads = uploads{}

// admits refuses what the node cannot or does not want to store now.
func (u uploads) admits() error {
	if u.api.noContent {
		return errNoContent
	}
	r := u.shut()
	if r.ready() {
		return nil
	}
	return status.BusyError(status.Busy, status.Limit{Name: "pressure_writes", Current: r.Need - r.Have, Cap: r.Need, RetryAfter: r.RetryAfter})
}

// Present implements gateway.Uploads.
func (u uploads) Present(ctx context.Context, root b3.Root, o gateway.UploadOptions) (client.Stored, bool, error) {
	if u.api.noContent {
		return client.Stored{}, false, errNoContent
	}
	defer u.api.st.Hold()() // until the pin is set
	has, err := u.api.st.Keep(ctx, []b3.Root{root})
	if err != nil || has[0] != store.Complete {
		return client.Stored{}, false, err
	}
	info, err := u.api.st.Stat(ctx, root)
	switch status.Of(err) {
	case status.OK:
	case status.NotFound, status.Corrupt:
		return client.Stored{}, false, nil
	default:
		return client.Stored{}, false, err
	}
	s := client.Stored{Root: root, Size: info.Size, Pinned: o.Pin}
	if o.Pin {
		err = u.api.pin(ctx, root, store.PinOptions{Label: o.Label})
	}
	return s, err == nil, err
}

// Put implements gateway.Uploads.
func (u uploads) Put(ctx context.Context, r io.Reader, o gateway.UploadOptions) (client.Stored, error) {
	if err := u.admits(); err != nil {
		return client.Stored{}, err
	}
	defer u.api.st.Hold()() // until the pin is set
	opt := store.PutOptions{Expect: o.Expect, Size: o.Length}
	if o.Pin {
		if err := store.CheckLabel(o.Label); err != nil {
			return client.Stored{}, err
		}
		opt.Charge = u.api.st.Charge(o.Label)
		defer opt.Charge.Release()
	}
	info, err := u.api.st.Put(ctx, r, opt)
	if err != nil {
		return client.Stored{}, err
	}
	if o.Pin {
		err = u.api.pin(ctx, info.Root, store.PinOptions{Label: o.Label, Charge: opt.Charge})
	}
	return client.Stored{Root: info.Root, Size: info.Size, New: info.New, Pinned: o.Pin}, err
}

// New implements gateway.Uploads.
func (u uploads) New(ctx context.Context, o gateway.UploadOptions) (gateway.Upload, error) {
	if err := u.admits(); err != nil {
		return gateway.Upload{}, err
	}
	up, err := u.api.st.NewUpload(ctx, store.UploadOptions{Length: o.Length, Expect: o.Expect, Label: o.Label, Pin: o.Pin})
	return u.told(up), err
}

// Upload implements gateway.Uploads.
func (u uploads) Upload(ctx context.Context, id string) (gateway.Upload, error) {
	up, err := u.api.st.Upload(ctx, id)
	return u.told(up), err
}

// Append implements gateway.Uploads.
func (u uploads) Append(ctx context.Context, id string, offset int64, r io.Reader) (gateway.Upload, error) {
	if err := u.admits(); err != nil {
		return gateway.Upload{}, err
	}
	up, err := u.api.st.AppendUpload(ctx, id, offset, r)
	if err == nil && !up.Root.IsZero() && up.Pin && u.api.pinned != nil {
		u.api.pinned(ctx, up.Root) // the store has pinned it itself
	}
	return u.told(up), err
}

// Remove implements gateway.Uploads.
func (u uploads) Remove(ctx context.Context, id string) error { return u.api.st.RemoveUpload(ctx, id) }

// told is an upload of the store as the gateway knows it.
func (uploads) told(up store.Upload) gateway.Upload {
	t := gateway.Upload{
		ID: up.ID, Offset: up.Offset, Expires: up.Expires,
		UploadOptions: gateway.UploadOptions{Length: up.Length, Expect: up.Expect, Pin: up.Pin, Label: up.Label},
	}
	if !up.Root.IsZero() {
		t.Stored = &client.Stored{Root: up.Root, Size: up.Length, New: up.New, Pinned: up.Pin}
	}
	return t
}
