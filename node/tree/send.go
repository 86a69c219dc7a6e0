package tree

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"

	"allium/gateway/api"
	"allium/protocols/status"
)

// SendItems adds items to a node as the tar stream that [api.Store.Add]
// takes. Of a file whose address is known and which the node holds the address
// is sent alone; should the node have lost it meanwhile, everything is sent
// again, once. What goes wrong while the items are read ends it with that error,
// not with the cut connection that the node makes of it.
func SendItems(ctx context.Context, s api.Store, items Items, o api.AddOptions, progress api.ProgressFunc) iter.Seq2[api.Added, error] {
	o.Ordered = true
	return func(yield func(api.Added, error) bool) {
		done, sendAgain := 0, false
		for added, err := range sendOnce(ctx, s, held(ctx, s, items), o, progress) {
			if lostReference(err) {
				sendAgain = true
				break
			}
			done++
			if !yield(added, err) || err != nil {
				return
			}
		}
		if !sendAgain {
			return
		}
		skip := done // those are told of
		for added, err := range sendOnce(ctx, s, unknown(items), o, progress) {
			if skip--; skip >= 0 && err == nil {
				continue
			}
			if !yield(added, err) || err != nil {
				return
			}
		}
	}
}

// sendOnce is one request.
func sendOnce(ctx context.Context, s api.Store, items Items, o api.AddOptions, progress api.ProgressFunc) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		r, w := io.Pipe()
		var sending sync.WaitGroup
		var sent error // read after sending.Wait
		sending.Go(func() {
			sent = WriteTar(w, items)
			_ = w.CloseWithError(sent) // never fails
		})
		end := func() {
			_ = r.Close() // never fails; WriteTar then gets io.ErrClosedPipe
			sending.Wait()
		}
		defer end()
		for added, err := range s.Add(ctx, r, o, progress) {
			if err != nil {
				end()
				if sent != nil && !errors.Is(sent, io.ErrClosedPipe) {
					err = sent
				}
			}
			if !yield(added, err) || err != nil {
				return
			}
		}
	}
}

func lostReference(err error) bool {
	var e *status.Error
	return errors.As(err, &e) && e.Detail == missingReference
}
