package upload

import (
	"context"
	"fmt"
	"io"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// commit makes the object visible, all of whose bytes are durable, and notes it.
// When it fails the bytes stay, and it may be tried again.
func (a *appending) commit() error {
	if err := a.open(); err != nil {
		return err
	}
	u := a.u
	if meta.Small(u.rec.Length) {
		return a.commitSmall()
	}
	root, err := a.sum()
	if err != nil {
		return err
	}
	if err := a.check(root); err != nil {
		return err
	}
	a.t.deps.Leases.Acquire(root) // until it is pinned
	defer a.t.deps.Leases.Release(root)
	if u.rec.Root != root {
		// A crash may find the files under their new names.
		rec := u.rec
		rec.Root = root
		if err := a.note(rec, nil); err != nil {
			return err
		}
	}
	st := a.st
	a.st = nil
	isNew, err := a.t.deps.CommitLarge(a.ctx, root, u.rec.Length, st, false, st.Close)
	if err != nil {
		u.hashed = b3.Mark{} // the outboard may be anywhere
		return err
	}
	a.t.deps.Outgrown(a.ctx, root)
	return a.settle(isNew)
}

func (a *appending) commitSmall() error {
	p := make([]byte, a.u.rec.Length)
	if _, err := io.ReadFull(io.NewSectionReader(a.st.Data, 0, int64(len(p))), p); err != nil {
		return meta.ReadError(err)
	}
	root := b3.Sum(p)
	if err := a.check(root); err != nil {
		return err
	}
	a.t.deps.Leases.Acquire(root)
	defer a.t.deps.Leases.Release(root)
	isNew, err := a.t.deps.CommitSmall(a.ctx, root, p, false)
	if err != nil {
		return err
	}
	rec := a.u.rec
	rec.Root = root
	a.t.set(a.u, rec)
	return a.settle(isNew)
}

// sum is the address of the bytes, and completes the outboard.
func (a *appending) sum() (b3.Root, error) {
	if err := a.hash(a.u.rec.Length); err != nil {
		return b3.Root{}, err
	}
	root, size, err := a.h.Sum()
	if err == nil && size != a.u.rec.Length {
		err = status.Errorf(status.Internal, "%d bytes were hashed of %d", size, a.u.rec.Length)
	}
	return root, err
}

// check ends an upload that is not what it was to be.
func (a *appending) check(root b3.Root) error {
	err := a.t.deps.Allowed(root, a.u.rec.Expect)
	if err == nil {
		return nil
	}
	a.Close()
	end := endedBadDigest
	if status.Of(err) == status.Denied {
		end = endedDenied
	}
	if a.t.writes.Enter() {
		defer a.t.writes.Leave()
		a.t.report("remove an upload that may not be stored", a.t.discard(a.u, end))
	}
	return err
}

// settle ends the upload of an object that is visible now, whatever the
// caller's context says.
func (a *appending) settle(isNew bool) error {
	a.Close()
	if !a.t.writes.Enter() {
		return meta.ErrDraining
	}
	defer a.t.writes.Leave()
	return a.t.settle(context.WithoutCancel(a.ctx), a.u, isNew)
}

// settle pins the object of an upload, gives back what was taken for it, and notes
// that it is done.
func (t *Table) settle(ctx context.Context, u *state, isNew bool) error {
	rec := u.rec
	if rec.Pin {
		if err := t.deps.Pin(ctx, rec.Root, rec.Label, u.charge); err != nil {
			return fmt.Errorf("%s is here, but not pinned: %w", rec.Root, err)
		}
	}
	rec.Done, rec.IsNew, rec.Expires = true, isNew, t.expiry()
	if err := t.deps.Backend.NoteUpload(rec, nil); err != nil {
		return err
	}
	t.release(u)
	t.set(u, rec)
	return nil
}
