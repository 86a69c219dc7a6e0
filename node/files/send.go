package files

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"

	"allium/gateway/api"
	"allium/protocols/status"
)

// SendItems adds items to a node through [api.Store.Add], as a tar. It sends only the
// address of a file that the node holds. If the node loses that object before it
// adds the file, SendItems sends all items again, once, with their bytes. So it does when
// a large file changes while it is read; one that changes again is left out with its
// [Disk], or an error. When an
// item cannot be read, SendItems ends with that error, not with the node's error
// about the cut tar.
//
// This process hashes nothing: the node reports the address of each file whose bytes
// were sent, and the add cache of [CachedItems] records it. If the node reports no
// addresses, the cache stays as it is.
func SendItems(
	ctx context.Context, s api.Store, items Items, o api.AddOptions, progress api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	o.Ordered = true
	return func(yield func(api.Added, error) bool) {
		var again resends
		for done, more := 0, true; more; {
			more = false
			these := onlyHeld(ctx, s, items)
			if again.lost {
				these = withoutRoots(items)
			}
			skip := done // these trees were already reported
			for added, err := range sendOnce(ctx, s, these, o, progress) {
				if skip > 0 && err == nil {
					skip--
					continue
				}
				if more = again.helps(err); more {
					break
				}
				done++
				if !yield(added, err) || err != nil {
					return
				}
			}
		}
	}
}

// sendOnce sends all items in one request.
func sendOnce(
	ctx context.Context, s api.Store, items Items, o api.AddOptions, progress api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		r, w := io.Pipe()
		var files sentFiles
		o.Roots = files.report
		var sending sync.WaitGroup
		var sent error // read after sending.Wait
		sending.Go(func() {
			sent = writeTar(w, items, files.add)
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

// lostReference reports whether the node does not hold an object that was sent by
// its address.
func lostReference(err error) bool {
	var e *status.Error
	return errors.As(err, &e) && e.Detail == missingReference
}
