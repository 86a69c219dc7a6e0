package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
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
	return send(items, func(these Items, lost bool) iter.Seq2[api.Added, error] {
		if !lost {
			these = onlyHeld(ctx, s, these)
		}
		return sendOnce(ctx, s, these, o, progress)
	})
}

// SendFile is SendItems for items that are one file, see [Disk.OneFile]. It passes a large file open to a node of this
// machine, which reads it. It does not ask first whether the node holds the object of a known address.
func SendFile(
	ctx context.Context, s api.Store, items Items, o api.AddOptions, progress api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	o.Ordered = true
	return send(items, func(these Items, _ bool) iter.Seq2[api.Added, error] {
		for it, err := range these {
			if err == nil && it.Open != nil && it.file.size >= api.LeastPassed {
				return sendOpen(ctx, s, it, o, progress)
			}
		}
		return sendOnce(ctx, s, these, o, progress)
	})
}

// sendOpen sends a file, or passes it open.
func sendOpen(
	ctx context.Context, s api.Store, it Item, o api.AddOptions, progress api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		f, err := it.Open()
		if err != nil {
			yield(api.Added{}, fmt.Errorf("%s: %w", it.Path, err))
			return
		}
		defer f.Close()
		if opened := openFile(f); opened != nil {
			o.File = &api.PassedFile{File: opened, Name: it.Path, Root: it.Root}
		}
		alone := func(yield func(Item, error) bool) { yield(it, nil) }
		for added, err := range sendOnce(ctx, s, alone, o, progress) {
			if c, ok := f.(cacheable); ok && err == nil && added.Reused == 0 {
				if record := c.recorder(); record != nil {
					record(added.Root)
				}
			}
			if hasDetail(err, changedFile) { // the node has read it twice
				changed := it.changed()
				changed.twice = true
				err = fmt.Errorf("%s: %w", it.Path, changed)
			}
			if !yield(added, err) {
				return
			}
		}
	}
}

// openFile returns the file that an item has opened, or nil.
func openFile(f io.Reader) *os.File {
	if r, ok := f.(*recordedFile); ok {
		f = r.statter
	}
	opened, _ := f.(*os.File)
	return opened
}

// send sends items with once, and again where that helps. Then lost says that the node had lost an object, and the
// items have no addresses.
func send(items Items, once func(these Items, lost bool) iter.Seq2[api.Added, error]) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		var again resends
		for done, more := 0, true; more; {
			more = false
			these := items
			if again.lost {
				these = withoutRoots(items)
			}
			skip := done // these trees were already reported
			for added, err := range once(these, again.lost) {
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
		var begin sync.Once
		var sent error // read after sending.Wait
		tar := readFunc(func(p []byte) (int, error) {
			begin.Do(func() { // a node that reads an open file reads no tar
				sending.Go(func() {
					sent = writeTar(w, items, files.add)
					_ = w.CloseWithError(sent) // never fails
				})
			})
			return r.Read(p)
		})
		end := func() {
			begin.Do(func() {})
			_ = r.Close() // never fails; WriteTar then gets io.ErrClosedPipe
			sending.Wait()
		}
		defer end()
		for added, err := range s.Add(ctx, tar, o, progress) {
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

// readFunc is a reader that calls a function.
type readFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// hasDetail reports whether err is an error with this detail.
func hasDetail(err error, detail string) bool {
	var e *status.Error
	return errors.As(err, &e) && e.Detail == detail
}
