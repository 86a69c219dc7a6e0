package objects

import (
	"errors"
	"fmt"
	"sync/atomic"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/arriving/partial"
	"allium/store/cache"
	"allium/store/meta"
	"allium/store/moved"
)

// Object is an open object. It holds a lease until Close, so it stays readable
// while others delete. Its methods are safe for concurrent use, but Close must
// not run while a read is in progress.
type Object struct {
	opener *Opener
	e      meta.Entry
	src    b3.Source
	reader *b3.Reader
	closed atomic.Bool

	// At most one of these is set.
	closeFiles func()        // closes files that only this object uses
	cached     *cache.Opened // files from the cache of open files
	part       *partial.View // a partial object; the view holds the lease
	moved      *moved.Object // an object that is read from the file that was moved out
}

// Root returns the object's address.
func (o *Object) Root() b3.Root { return o.e.Root }

// Size returns the object's size in bytes. For a download that is still running,
// it is the claimed size.
func (o *Object) Size() int64 { return o.e.Size }

// Source returns the object's raw storage. Its bytes are not verified.
func (o *Object) Source() b3.Source { return o.src }

// Reader returns a reader of the object that verifies every byte. Pass an error
// of the reader to Failed.
func (o *Object) Reader() *b3.Reader { return o.reader }

// Failed takes the error of a read of the object. If the error means that the
// stored bytes are wrong, Failed marks the object corrupt, counts it, and
// returns an error that says what to do. It returns any other error unchanged.
func (o *Object) Failed(err error) error {
	if o.part != nil {
		return o.part.ReadFailed(err)
	}
	if o.moved != nil {
		return o.moved.ReadFailed(err)
	}
	if err == nil || status.Of(err) != status.Corrupt {
		return err
	}
	if e := o.opener.deps.Admission.Enter(); e != nil {
		return err
	}
	defer o.opener.deps.Admission.Leave()
	return o.opener.Damaged(o.e, err)
}

// Stored reports whether the object is whole among the files or in the RAM of the store: neither
// a partial one nor one that is read from a file that was moved out.
func (o *Object) Stored() bool { return o.part == nil && o.moved == nil }

// Close releases the lease and the files. It is idempotent and always returns nil.
func (o *Object) Close() error {
	if o.closed.Swap(true) {
		return nil
	}
	if o.part != nil {
		o.part.Close()
		return nil
	}
	if o.closeFiles != nil {
		o.closeFiles()
	}
	if o.cached != nil {
		o.opener.deps.Files.Release(o.cached)
	}
	if o.moved != nil {
		o.moved.Close()
	}
	o.opener.deps.Leases.Release(o.e.Root)
	return nil
}

// Covers reports whether bytes [start, end) of the object can be read. For a
// whole object that is every range within its size.
func (o *Object) Covers(start, end int64) bool {
	if o.part != nil {
		return o.part.Covers(start, end)
	}
	return 0 <= start && start <= end && end <= o.e.Size
}

// Damaged turns an error of reading e into the error for the user. If the bytes
// are wrong, it counts the damage and marks e, so that the next put replaces it.
// If the disk could not be read, it only counts: a later read may succeed. The
// caller leases e.
func (p *Opener) Damaged(e meta.Entry, err error) error {
	var why meta.Defect
	switch {
	case errors.As(err, &why):
	case errors.Is(err, b3.ErrCorrupt):
		why = "digest"
	case status.Of(err) == status.Corrupt:
		p.deps.Integrity.WithLabelValues("io").Inc()
		return fmt.Errorf("read %s: %w", e.Root, err)
	default:
		return fmt.Errorf("read %s: %w", e.Root, err)
	}
	p.deps.Integrity.WithLabelValues(string(why)).Inc()
	if p.deps.Leases.Mark(e.Root) {
		defer p.deps.Leases.Unmark(e.Root)
		if err := p.deps.Backend.Mark(e, true); err != nil {
			p.deps.Log.Warn("a damaged object could not be marked", "root", e.Root, "err", err)
		}
		p.Drop(e.Root)
	}
	p.deps.Log.Error("a stored object is damaged and is not served", "root", e.Root, "reason", string(why))
	p.deps.OnDamage(e.Root)
	return meta.Corrupt(e.Root, why.Error())
}
