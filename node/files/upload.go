package files

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"allium/gateway/api"
	"allium/internal/printable"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Upload passes a tar of one directory to send, which stores it elsewhere and returns what it was told. The
// names in the tar are relative to the directory. Upload computes the directory's address from the same
// bytes, and returns upstream if send was told another one. The result counts what was sent. If an item
// cannot be read, Upload returns that error. When a file changes while it is read, Upload sends everything
// again, once; a file that changes again is left out with its [Disk], or an error.
func Upload(
	ctx context.Context, items Items, send func(ctx context.Context, tar io.Reader) (api.Added, error),
) (api.Added, error) {
	var again resends
	for {
		added, err := uploadOnce(ctx, items, send)
		if err == nil || !again.helps(err) {
			return added, err
		}
	}
}

// uploadOnce is Upload that sends once.
func uploadOnce(
	ctx context.Context, items Items, send func(ctx context.Context, tar io.Reader) (api.Added, error),
) (api.Added, error) {
	toSend, sent := io.Pipe()
	toHash, hashed := io.Pipe()
	var work sync.WaitGroup
	var want api.Added
	var readErr, hashErr error // read after work.Wait
	work.Go(func() {
		readErr = WriteTar(io.MultiWriter(hashed, sent), relative(items))
		_ = hashed.CloseWithError(readErr) // never fails
		_ = sent.CloseWithError(readErr)   // never fails
	})
	work.Go(func() {
		hashErr = Add(ctx, hashStore{}, below(uploadName, TarItems(toHash)), Reports{},
			func(_ context.Context, added api.Added) error { want = added; return nil })
		_ = toHash.CloseWithError(hashErr) // never fails; the writer ends with the error
	})
	got, err := send(ctx, toSend)
	_ = toSend.Close() // never fails; the writer then gets io.ErrClosedPipe
	work.Wait()
	switch {
	case readErr != nil && !errors.Is(readErr, io.ErrClosedPipe):
		return api.Added{}, readErr
	case err != nil:
		return api.Added{}, err
	case hashErr != nil:
		return api.Added{}, hashErr
	case got.Root != want.Root:
		return api.Added{}, status.Errorf(status.Upstream,
			"the directory that was sent is %s, and the answer names %s. Use another gateway", want.Root,
			printable.Name(got.Root.String()))
	}
	want.Name, want.New = "", max(0, got.New) // only the receiver knows what it had
	return want, nil
}

// uploadName stands for the directory that is uploaded, which has no name in the tar.
const uploadName = "directory"

// relative yields the items of one tree with paths relative to its directory, which is ".".
func relative(items Items) Items {
	return func(yield func(Item, error) bool) {
		for it, err := range items {
			if it.Path = innerPath(it.Path); it.Path == "" {
				it.Path = "."
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// below yields the items with paths below a directory called top, which "." becomes.
func below(top string, items Items) Items {
	return func(yield func(Item, error) bool) {
		for it, err := range items {
			it.Path = strings.TrimSuffix(top+"/"+it.Path, "/.")
			if !yield(it, err) {
				return
			}
		}
	}
}

// hashStore computes addresses and keeps nothing.
type hashStore struct{}

// Find implements Store.
func (hashStore) Find(_ context.Context, roots []b3.Root) ([]Object, error) {
	return make([]Object, len(roots)), nil
}

// Put implements Store.
func (hashStore) Put(_ context.Context, r io.Reader, _ int64) (Object, error) {
	h := b3.NewHasher(nil, 1)
	if _, err := h.ReadFrom(r); err != nil {
		h.Reset(nil)
		return Object{}, err
	}
	root, n, err := h.Sum()
	return Object{Root: root, Size: n}, err
}

// PutBytes implements Store.
func (hashStore) PutBytes(_ context.Context, p []byte) (Object, error) {
	return Object{Root: b3.Sum(p), Size: int64(len(p))}, nil
}

// Flush implements Store.
func (hashStore) Flush(context.Context) error { return nil }
