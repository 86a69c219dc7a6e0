package store

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
	a.s.leases.Acquire(root) // until it is pinned
	defer a.s.leases.Release(root)
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
	info, err := a.s.commitLarge(a.ctx, root, u.rec.Length, st, false, st.Close)
	if err != nil {
		u.hashed = b3.Mark{} // the outboard may be anywhere
		return err
	}
	a.s.outgrown(a.ctx, root)
	return a.settle(info.New)
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
	a.s.leases.Acquire(root)
	defer a.s.leases.Release(root)
	info, err := a.s.commitSmall(a.ctx, root, p, PutOptions{})
	if err != nil {
		return err
	}
	rec := a.u.rec
	rec.Root = root
	a.s.uploads.set(a.u, rec)
	return a.settle(info.New)
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
	err := a.s.allowed(root, PutOptions{Expect: a.u.rec.Expect})
	if err == nil {
		return nil
	}
	a.Close()
	end := uploadBadDigest
	if status.Of(err) == status.Denied {
		end = uploadDenied
	}
	if a.s.uploads.enter() {
		defer a.s.uploads.leave()
		a.s.report("remove an upload that may not be stored", a.s.dropUpload(a.u, end))
	}
	return err
}

// settle ends the upload of an object that is visible now, whatever the
// caller's context says.
func (a *appending) settle(isNew bool) error {
	a.Close()
	if !a.s.uploads.enter() {
		return meta.ErrDraining
	}
	defer a.s.uploads.leave()
	return a.s.settleUpload(context.WithoutCancel(a.ctx), a.u, isNew)
}

// settleUpload pins the object of an upload, gives back what was taken for it,
// and notes that it is done.
func (s *Store) settleUpload(ctx context.Context, u *uploadState, isNew bool) error {
	rec := u.rec
	if rec.Pin {
		if err := s.pinUpload(ctx, u); err != nil {
			return fmt.Errorf("%s is here, but not pinned: %w", rec.Root, err)
		}
	}
	rec.Done, rec.IsNew, rec.Expires = true, isNew, s.uploadExpiry()
	if err := s.backend.NoteUpload(rec, nil); err != nil {
		return err
	}
	s.giveUpload(u)
	s.uploads.set(u, rec)
	return nil
}

// pinUpload pins an upload's object, and makes what it counts the pin's. A pin
// that the label has already stays what it is: it may be recursive.
func (s *Store) pinUpload(ctx context.Context, u *uploadState) error {
	root, label := u.rec.Root, u.rec.Label
	own, err := s.backend.Pins(root, label, make([]meta.Pin, 0, 1))
	if err != nil {
		return err
	}
	if len(own) == 1 && own[0].Root == root && own[0].Label == label {
		return nil
	}
	return s.Pin(ctx, root, PinOptions{Label: label, Charge: u.charge})
}
