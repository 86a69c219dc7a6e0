package resolver

import (
	"context"
	"fmt"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// OpenOptions say which bytes of an object are wanted and who may have them.
// The zero value asks for no bytes: the size alone.
type OpenOptions struct {
	// Start and End are the bytes wanted, End exclusive or ToEnd. A negative
	// Start, with ToEnd, counts from the end: -500 is the last 500 bytes. What
	// lies past the end of the object is cut off. Start == End reads nothing.
	Start, End int64
	// Ahead is how many bytes may be asked for ahead of the reader, from 512 KiB
	// to 64 MiB, which 0 stands for: with it a reader sets the pace of a fetch.
	Ahead int64
	Sources
}

// ToEnd is the End of a range that reaches to the end of the object.
const ToEnd = -1

// Whole asks for a whole object.
func Whole(from Sources) OpenOptions { return OpenOptions{End: ToEnd, Sources: from} }

// RangeError is a range that begins behind the end of the object (bad_range).
type RangeError struct {
	Root  b3.Root
	Start int64
	Size  int64 // proved, for Content-Range
}

// Error names the range and the size.
func (e *RangeError) Error() string {
	return fmt.Sprintf("resolver: %s has %d bytes, there is nothing from byte %d on", e.Root, e.Size, e.Start)
}

// Status is bad_range.
func (e *RangeError) Status() status.Outcome { return status.BadRange }

// ahead is Ahead in groups.
func (o OpenOptions) ahead() int64 {
	if o.Ahead == 0 {
		return readAhead
	}
	return min(max(o.Ahead/b3.GroupSize, leastAhead), readAhead)
}

// empty reports whether no bytes are asked for.
func (o OpenOptions) empty() bool { return o.Start == o.End }

func (o OpenOptions) check(root b3.Root) error {
	switch {
	case o.End < ToEnd, o.End >= 0 && (o.Start < 0 || o.Start > o.End):
		return status.Errorf(status.BadRange, "resolver: %s: [%d, %d) is not a range: want 0 ≤ start ≤ end, or end -1", root, o.Start, o.End)
	}
	return nil
}

// within cuts the range to an object of that size.
func (o OpenOptions) within(root b3.Root, size int64) (start, end int64, err error) {
	if o.empty() {
		return 0, 0, nil
	}
	start, end = o.Start, o.End
	if end == ToEnd || end > size {
		end = size
	}
	if start < 0 {
		return max(0, size+start), end, nil
	}
	if start > size || start == size && start > 0 {
		return 0, 0, &RangeError{Root: root, Start: start, Size: size}
	}
	return start, end, nil
}

// Open returns the bytes asked for, from the store or from peers. It returns
// once the size is proved and the first group wanted is there, verified; what
// follows is read as it arrives, and no more than opt.Ahead ahead of the reader is
// asked for. What arrives is kept in the store: an object of which all was read
// is local, of another the store holds the parts.
//
// ctx governs the Content until it is closed. Errors carry the outcome: that of
// what the providers did (corrupt before upstream before timeout before
// not_found), bad_range as a [*RangeError], busy, and those of the store.
func (r *Resolver) Open(ctx context.Context, root b3.Root, opt OpenOptions) (*Content, error) {
	if err := opt.check(root); err != nil {
		return nil, err
	}
	if err := r.denied(root); err != nil {
		return nil, err
	}
	begun := time.Now()
	c, err := r.openLocal(ctx, root, opt)
	if absent(err) {
		c, err = r.openRemote(ctx, root, opt, err)
	}
	if err != nil {
		return nil, err
	}
	r.m.observe("open_"+c.source.String(), begun)
	return c, nil
}

// absent reports whether err says that the object has to be fetched: a damaged
// one is as good as none, and replaced.
func absent(err error) bool {
	o := status.Of(err)
	return o == status.NotFound || o == status.Corrupt
}

// unmended returns what to say when fetching failed: that the local copy is
// damaged, if it is, matters more than that nobody has another.
func unmended(here, fetch error) error {
	if fetch == nil || status.Of(here) != status.Corrupt {
		return fetch
	}
	return fmt.Errorf("%w; fetching it again failed: %w", here, fetch)
}

func (r *Resolver) openLocal(ctx context.Context, root b3.Root, opt OpenOptions) (*Content, error) {
	obj, err := r.local.Open(ctx, root)
	if err != nil {
		return nil, err
	}
	c := &Content{root: root, source: SourceLocal, ctx: ctx, from: &localGroups{obj: obj}}
	return c.begin(opt, obj.Size())
}

// openRemote opens an object that is not local; here says why it is not.
func (r *Resolver) openRemote(ctx context.Context, root b3.Root, opt OpenOptions, here error) (*Content, error) {
	l, err := r.admit()
	if err != nil {
		return nil, err
	}
	defer l.wg.Done()
	work, end := l.bind(ctx) // until the content is closed
	c := &Content{root: root, source: SourcePeer, ctx: work, lookupID: newLookupID(), done: end}
	size, err := r.findGroups(work, l, c, opt)
	if err == nil && c.from == nil { // it became local while we looked
		var obj LocalObject
		if obj, err = r.local.Open(work, root); err == nil {
			c.source, c.from, size = SourceLocal, &localGroups{obj: obj}, obj.Size()
		}
	}
	if err != nil {
		err = why(work, err)
		c.Close()
		return nil, unmended(here, err)
	}
	return c.begin(opt, size)
}

// findGroups gives c somewhere to read from: the transfer of the object. It
// leaves c.from nil when the object has become local.
func (r *Resolver) findGroups(ctx context.Context, l *life, c *Content, opt OpenOptions) (size int64, err error) {
	w, err := r.join(ctx, l, c.root, opt, false, c.lookupID)
	if err != nil {
		return 0, err
	}
	size, err = w.sized()
	if err == nil && size >= 0 {
		start, _, rangeErr := opt.within(c.root, size)
		w.at(start / b3.GroupSize)
		if err = rangeErr; err == nil {
			var from *transferGroups
			if from, err = w.follow(); err == nil {
				c.from, c.resumed = from, w.t.resumed
				return size, nil
			}
		}
	}
	w.leave()
	return 0, err
}
