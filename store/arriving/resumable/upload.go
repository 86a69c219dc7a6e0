package resumable

import (
	"context"
	"fmt"
	"io"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Info describes an upload. It is a copy.
type Info struct {
	ID string // 32 random hex digits, which serve as a secret
	meta.UploadOptions
	Offset  int64     // bytes that are stored and durable
	Expires time.Time // when it is removed unless more bytes come before; whole seconds
	Root    b3.Root   // the address, once the object is visible; zero before
	New     bool      // whether the visible object was new to the store
}

// infoOf returns what callers may see of r.
func infoOf(r meta.Upload) Info {
	if r.ID == (meta.UploadID{}) {
		return Info{}
	}
	u := Info{ID: r.ID.String(), UploadOptions: r.UploadOptions, Offset: r.Offset, Expires: r.Expires.Time()}
	if r.Done {
		u.Root, u.New = r.Root, r.IsNew
	}
	return u
}

// New begins an upload. It reserves space and quota for the whole object, or returns
// no_space or quota. It returns busy if all places or those of c are taken, unless another
// capability has more uploads, and one without a byte. The upload ends when it is complete,
// with Remove, Deps.TTL after the last bytes, or with c: with the capability of those that
// sent bytes which is valid longest.
func (t *Table) New(ctx context.Context, c Capability, o meta.UploadOptions) (Info, error) {
	if o.Length < 0 || o.Length > b3.MaxSize {
		return Info{}, status.Errorf(status.BadRequest, "an object cannot have %d bytes", o.Length)
	}
	if err := meta.CheckLabel(o.Label); err != nil {
		return Info{}, err
	}
	if err := t.deps.Allowed(o.Expect, b3.Root{}); err != nil {
		return Info{}, err
	}
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return Info{}, err
	}
	defer t.deps.Admission.Leave()
	u, err := t.create(ctx, c, o)
	if err != nil {
		return Info{}, fmt.Errorf("begin an upload: %w", err)
	}
	return infoOf(u), nil
}

// create reserves and records a new upload, and releases everything when it fails.
func (t *Table) create(ctx context.Context, c Capability, o meta.UploadOptions) (_ meta.Upload, err error) {
	if err := t.reserve(c.owner()); err != nil {
		return meta.Upload{}, err
	}
	u := &state{
		rec:    meta.Upload{UploadOptions: o, ID: newID(c.owner()), Expires: t.expiry(c)},
		charge: t.deps.Quotas.Charge(o.Label),
	}
	defer func() {
		if err != nil {
			t.release(u)
			t.unreserve(c.owner())
		}
	}()
	if err := u.charge.Take(meta.Count{Objects: 1, Bytes: o.Length}); err != nil {
		return meta.Upload{}, err
	}
	space := meta.Count{Objects: 1, Bytes: meta.StoredSize(o.Length)}
	if err := t.deps.Space.ReserveUnwritten(ctx, space); err != nil {
		return meta.Upload{}, err
	}
	u.space, u.unwritten = space, space.Bytes
	if err := t.deps.Backend.NoteUpload(u.rec, nil); err != nil {
		return meta.Upload{}, err
	}
	t.add(u)
	return u.rec, nil
}

// Get describes an upload: not_found when it is unknown, gone when it recently expired or
// was removed. A completed upload is known until its expiry; of more than 1,024 completed
// ones, those that expire last.
func (t *Table) Get(ctx context.Context, id string) (Info, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return Info{}, err
	}
	defer t.deps.Admission.Leave()
	u, err := t.get(id)
	return infoOf(u), err
}

// Append adds the bytes of r, to its end, at offset, which must equal the bytes stored so
// far. Another offset, or another append in progress, is conflict. When r fails, what came
// before is kept and durable when Append returns, with the error and the state. If the
// process ends meanwhile, about the last 32 MiB or 5 s are lost.
//
// An upload that pins without a label gets that of c before r is read. If it has another
// one, Append returns forbidden.
//
// With the last byte the object is verified, stored, pinned and visible. Bytes that do not
// hash to Expect are bad_digest, and the upload is removed. More bytes than Length are
// body_cap, and are not read. An empty append to an upload that has all its bytes completes
// it if an earlier one could not, and returns the address.
func (t *Table) Append(ctx context.Context, c Capability, id string, offset int64, r io.Reader) (Info, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return Info{}, err
	}
	t.deps.Admission.Leave() // r may be slow, and the store may close meanwhile
	u, err := t.lock(id)
	if err != nil {
		rec, _ := t.get(id) // describes an upload that is busy
		return infoOf(rec), err
	}
	defer t.unlock(u)
	err = t.appendTo(ctx, c, u, offset, r)
	if err != nil {
		err = fmt.Errorf("append to an upload: %w", err)
	}
	return infoOf(u.rec), err
}

func (t *Table) appendTo(ctx context.Context, c Capability, u *state, offset int64, r io.Reader) error {
	if offset != u.rec.Offset {
		return status.Errorf(status.Conflict, "%d bytes are stored, not %d; continue from there", u.rec.Offset, offset)
	}
	release, err := t.deps.Gate.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	r = t.deps.Admission.Reader(ctx, r)
	if u.rec.Done {
		return checkEnd(r, u.rec.Length)
	}
	a := &appending{ctx: ctx, t: t, u: u, by: c}
	defer a.Close()
	if err := a.setLabel(); err != nil {
		return err
	}
	if err := a.receive(r); err != nil {
		return err
	}
	if u.rec.Offset < u.rec.Length {
		return nil
	}
	if err := checkEnd(r, u.rec.Length); err != nil {
		return err
	}
	return a.commit()
}

// Remove ends an upload and deletes its bytes: not_found or gone when there is none,
// conflict while an append runs. An object that it became stays.
func (t *Table) Remove(ctx context.Context, id string) error {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return err
	}
	defer t.deps.Admission.Leave()
	u, err := t.lock(id)
	if err != nil {
		return err
	}
	defer t.unlock(u)
	if err := t.discard(u, endedRemoved); err != nil {
		return fmt.Errorf("remove an upload: %w", err)
	}
	return nil
}

// discard deletes an upload that the caller has locked.
func (t *Table) discard(u *state, why outcome) error {
	if err := t.deps.Backend.DropUpload(u.rec.ID); err != nil {
		return err
	}
	t.release(u)
	t.forget(u, why)
	return nil
}

// release gives back the space and the quota of u. Further calls do nothing.
func (t *Table) release(u *state) {
	u.charge.Release()
	t.deps.Space.ReleaseUnwritten(u.space, u.unwritten)
	u.space, u.unwritten = meta.Count{}, 0
}

// expiry returns when an upload expires that c begins, or sends bytes of, now.
func (t *Table) expiry(c Capability) meta.Second {
	expires := time.Now().Add(lifetime(t))
	if !c.Until.IsZero() && c.Until.Before(expires) {
		expires = c.Until
	}
	return meta.SecondOf(expires)
}
