package upload

import (
	"context"
	"fmt"
	"io"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// Info is what is known of an upload; a copy.
type Info struct {
	ID string // 32 hex digits that nobody can guess
	Options
	Offset  int64     // bytes that are here and durable
	Expires time.Time // when it is removed, unless more comes before; in whole seconds
	Root    b3.Root   // its address, once the object is visible; zero before
	New     bool      // of a visible one: the bytes were stored, not found there whole
}

// infoOf is what callers see of r.
func infoOf(r Record) Info {
	if r.ID == (ID{}) {
		return Info{}
	}
	u := Info{ID: r.ID.String(), Options: r.Options, Offset: r.Offset, Expires: r.Expires.Time()}
	if r.Done {
		u.Root, u.New = r.Root, r.IsNew
	}
	return u
}

// New begins an upload: an object that comes in pieces, of which no byte
// that was acknowledged is lost. Space and quota for all of it are taken now,
// or it is no_space or quota; Deps.Most are open at a time, the next is
// busy. It ends when it is whole, with Remove, or Deps.TTL after
// the last bytes came.
func (t *Table) New(ctx context.Context, o Options) (Info, error) {
	if o.Length < 0 || o.Length > b3.MaxSize {
		return Info{}, status.Errorf(status.BadRequest, "store: an object cannot have %d bytes", o.Length)
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
	u, err := t.create(ctx, o)
	if err != nil {
		return Info{}, fmt.Errorf("store: upload: %w", err)
	}
	return infoOf(u), nil
}

// create takes what the upload needs, and gives it back when it fails.
func (t *Table) create(ctx context.Context, o Options) (_ Record, err error) {
	if err := t.reserve(); err != nil {
		return Record{}, err
	}
	u := &state{rec: Record{Options: o, ID: NewID(), Expires: t.expiry()}, charge: t.deps.Quotas.Charge(o.Label)}
	defer func() {
		if err != nil {
			t.release(u)
			t.unreserve()
		}
	}()
	if err := u.charge.Take(meta.Count{Objects: 1, Bytes: o.Length}); err != nil {
		return Record{}, err
	}
	space := meta.Count{Objects: 1, Bytes: meta.StoredSize(o.Length)}
	if err := t.deps.Space.ReserveWhole(ctx, space); err != nil {
		return Record{}, err
	}
	u.space, u.unwritten = space, space.Bytes
	if err := t.deps.Backend.NoteUpload(u.rec, nil); err != nil {
		return Record{}, err
	}
	t.add(u)
	return u.rec, nil
}

// Get returns what is known of an upload: not_found, or gone when it expired
// or was removed not long ago. Of one that is whole it tells the address as long
// as it would have lived; of more than 1,024 of them, those that have longest.
func (t *Table) Get(ctx context.Context, id string) (Info, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return Info{}, err
	}
	defer t.deps.Admission.Leave()
	u, err := t.get(id)
	return infoOf(u), err
}

// Append adds what r gives, to its end, behind the first offset bytes,
// which must be all that are here, else it is conflict; so it is while another
// append runs. What came before r failed is kept, durable when Append
// returns, with the error and the state; of an append that does not return, all
// but about the last 32 MiB or 5 s. With the last byte the object is verified,
// stored, pinned and visible; bytes that do not hash to Expect are bad_digest,
// and the upload is removed. More than Length is body_cap, and what is behind
// Length is not read. An append of nothing to an upload that has all its bytes
// ends what an earlier one could not, and tells the address.
func (t *Table) Append(ctx context.Context, id string, offset int64, r io.Reader) (Info, error) {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return Info{}, err
	}
	t.deps.Admission.Leave() // r may take its time
	u, err := t.begin(id)
	if err != nil {
		rec, _ := t.get(id) // of one that is busy
		return infoOf(rec), err
	}
	defer t.end(u)
	err = t.appendTo(ctx, u, offset, r)
	if err != nil {
		err = fmt.Errorf("store: upload: %w", err)
	}
	return infoOf(u.rec), err
}

func (t *Table) appendTo(ctx context.Context, u *state, offset int64, r io.Reader) error {
	if offset != u.rec.Offset {
		return status.Errorf(status.Conflict, "%d bytes are here, not %d; go on from there", u.rec.Offset, offset)
	}
	release, err := t.deps.Gate.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	r = t.deps.Admission.Reader(ctx, r)
	if u.rec.Done {
		return atEnd(r, u.rec.Length)
	}
	a := &appending{ctx: ctx, t: t, u: u}
	defer a.Close()
	if err := a.receive(r); err != nil {
		return err
	}
	if u.rec.Offset < u.rec.Length {
		return nil
	}
	if err := atEnd(r, u.rec.Length); err != nil {
		return err
	}
	return a.commit()
}

// Remove ends an upload and removes what came of it: not_found or gone
// when there is none, conflict while an append runs. An object that was made of
// it stays.
func (t *Table) Remove(ctx context.Context, id string) error {
	if err := t.deps.Admission.EnterContext(ctx); err != nil {
		return err
	}
	defer t.deps.Admission.Leave()
	u, err := t.begin(id)
	if err != nil {
		return err
	}
	defer t.end(u)
	if err := t.discard(u, endedRemoved); err != nil {
		return fmt.Errorf("store: remove an upload: %w", err)
	}
	return nil
}

// discard removes an upload, which the caller holds.
func (t *Table) discard(u *state, why ending) error {
	if err := t.deps.Backend.DropUpload(u.rec.ID); err != nil {
		return err
	}
	t.release(u)
	t.drop(u, why)
	return nil
}

// release gives back the space and the quota that were taken for u, once.
func (t *Table) release(u *state) {
	u.charge.Release()
	t.deps.Space.ReleaseWhole(u.space, u.unwritten)
	u.space, u.unwritten = meta.Count{}, 0
}

// expiry is when an upload of which bytes came now ends.
func (t *Table) expiry() meta.Second { return meta.SecondOf(time.Now().Add(t.deps.TTL)) }
