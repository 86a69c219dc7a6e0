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
	opt := store.PutOptions{Expect: o.Expect}
	if o.Pin {
		opt.Charge = u.api.st.Charge(o.Label)
		defer opt.Charge.Release()
		if err := opt.Charge.Fits(max(o.Length, 0)); err != nil {
			return client.Stored{}, err
		}
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

// errPieces is the answer until the store takes uploads in pieces.
var errPieces = status.Errorf(status.Unsupported, "uploads in pieces are not taken; use PUT or POST of /o")

// New implements gateway.Uploads.
func (u uploads) New(context.Context, gateway.UploadOptions) (gateway.Upload, error) {
	return gateway.Upload{}, errPieces
}

// Upload implements gateway.Uploads.
func (u uploads) Upload(context.Context, string) (gateway.Upload, error) {
	return gateway.Upload{}, errPieces
}

// Append implements gateway.Uploads.
func (u uploads) Append(context.Context, string, int64, io.Reader) (gateway.Upload, error) {
	return gateway.Upload{}, errPieces
}

// Remove implements gateway.Uploads.
func (u uploads) Remove(context.Context, string) error { return errPieces }
