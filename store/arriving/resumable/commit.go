package resumable

import (
	"context"
	"fmt"
	"io"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// commit makes the object visible and completes the upload. All bytes are durable already;
// after an error they stay, and a later append tries again.
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
		// After a crash the files may have their new names; the record then tells them.
		rec := u.rec
		rec.Root = root
		if err := a.save(rec, nil); err != nil {
			return err
		}
	}
	st := a.st
	a.st = nil
	isNew, err := a.t.deps.CommitLarge(a.ctx, root, u.rec.Length, st, false, st.Close)
	if err != nil {
		u.hashed = b3.HasherState{} // the outboard may have been renamed
		return err
	}
	a.t.deps.DropPartial(a.ctx, root)
	return a.complete(isNew)
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
	return a.complete(isNew)
}

// sum returns the address of the bytes, and completes the outboard.
func (a *appending) sum() (b3.Root, error) {
	if err := a.hashTo(a.u.rec.Length); err != nil {
		return b3.Root{}, err
	}
	root, size, err := a.h.Sum()
	if err == nil && size != a.u.rec.Length {
		err = status.Errorf(status.Internal, "%d of %d bytes were hashed", size, a.u.rec.Length)
	}
	return root, err
}

// check removes the upload when its object must not be stored.
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
		a.t.report("remove a refused upload", a.t.discard(a.u, end))
	}
	return err
}

// complete completes the upload of an object that is visible now, even when the caller's
// context has ended.
func (a *appending) complete(isNew bool) error {
	a.Close()
	if !a.t.writes.Enter() {
		return meta.ErrDraining
	}
	defer a.t.writes.Leave()
	return a.t.complete(context.WithoutCancel(a.ctx), a.u, isNew)
}

// complete pins the object of an upload, releases its space and quota, and records that it
// is done.
func (t *Table) complete(ctx context.Context, u *state, isNew bool) error {
	rec := u.rec
	if rec.Pin {
		if err := t.deps.Pin(ctx, rec.Root, rec.Label, u.charge); err != nil {
			return fmt.Errorf("pin the stored object %s: %w", rec.Root, err)
		}
	}
	rec.Done, rec.IsNew, rec.Expires = true, isNew, t.expiry(Capability{})
	if err := t.deps.Backend.NoteUpload(rec, nil); err != nil {
		return err
	}
	t.release(u)
	t.set(u, rec)
	return nil
}
