package store

import (
	"context"
	"fmt"
	"io"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/upload"
)

// Upload is what is known of an upload; a copy.
type Upload struct {
	ID string // 32 hex digits that nobody can guess
	upload.Options
	Offset  int64     // bytes that are here and durable
	Expires time.Time // when it is removed, unless more comes before; in whole seconds
	Root    b3.Root   // its address, once the object is visible; zero before
	New     bool      // of a visible one: the bytes were stored, not found there whole
}

// NewUpload begins an upload: an object that comes in pieces, of which no byte
// that was acknowledged is lost. Room and quota for all of it are taken now,
// or it is no_space or quota; Config.Uploads are open at a time, the next is
// busy. It ends when it is whole, with RemoveUpload, or Config.UploadTTL after
// the last bytes came.
func (s *Store) NewUpload(ctx context.Context, o upload.Options) (Upload, error) {
	if o.Length < 0 || o.Length > b3.MaxSize {
		return Upload{}, status.Errorf(status.BadRequest, "store: an object cannot have %d bytes", o.Length)
	}
	if err := meta.CheckLabel(o.Label); err != nil {
		return Upload{}, err
	}
	if err := s.denied(o.Expect); err != nil {
		return Upload{}, err
	}
	if err := s.admit(ctx); err != nil {
		return Upload{}, err
	}
	defer s.leave()
	u, err := s.newUpload(ctx, o)
	if err != nil {
		return Upload{}, fmt.Errorf("store: upload: %w", err)
	}
	return uploadInfo(u), nil
}

// newUpload takes what the upload needs, and gives it back when it fails.
func (s *Store) newUpload(ctx context.Context, o upload.Options) (_ upload.Record, err error) {
	t := s.uploads
	if err := t.reserve(); err != nil {
		return upload.Record{}, err
	}
	u := &uploadState{rec: upload.Record{Options: o, ID: upload.NewID(), Expires: s.uploadExpiry()}, charge: s.quotas.Charge(o.Label)}
	defer func() {
		if err != nil {
			s.giveUpload(u)
			t.unreserve()
		}
	}()
	if err := u.charge.Take(meta.Count{Objects: 1, Bytes: o.Length}); err != nil {
		return upload.Record{}, err
	}
	room := meta.Count{Objects: 1, Bytes: meta.StoredSize(o.Length)}
	if err := s.space.ReserveWhole(ctx, room); err != nil {
		return upload.Record{}, err
	}
	u.room, u.unwritten = room, room.Bytes
	if err := s.backend.NoteUpload(u.rec, nil); err != nil {
		return upload.Record{}, err
	}
	t.add(u)
	return u.rec, nil
}

// Upload returns what is known of an upload: not_found, or gone when it expired
// or was removed not long ago. Of one that is whole it tells the address as long
// as it would have lived; of more than 1,024 of them, those that have longest.
func (s *Store) Upload(ctx context.Context, id string) (Upload, error) {
	if err := s.admit(ctx); err != nil {
		return Upload{}, err
	}
	defer s.leave()
	u, err := s.uploads.get(id)
	return uploadInfo(u), err
}

// AppendUpload adds what r gives, to its end, behind the first offset bytes,
// which must be all that are here, else it is conflict; so it is while another
// append runs. What came before r failed is kept, durable when AppendUpload
// returns, with the error and the state; of an append that does not return, all
// but about the last 32 MiB or 5 s. With the last byte the object is verified,
// stored, pinned and visible; bytes that do not hash to Expect are bad_digest,
// and the upload is removed. More than Length is body_cap, and what is behind
// Length is not read. An append of nothing to an upload that has all its bytes
// ends what an earlier one could not, and tells the address.
func (s *Store) AppendUpload(ctx context.Context, id string, offset int64, r io.Reader) (Upload, error) {
	if err := s.admit(ctx); err != nil {
		return Upload{}, err
	}
	s.leave() // r may take its time
	u, err := s.uploads.begin(id)
	if err != nil {
		rec, _ := s.uploads.get(id) // of one that is busy
		return uploadInfo(rec), err
	}
	defer s.uploads.end(u)
	err = s.appendTo(ctx, u, offset, r)
	if err != nil {
		err = fmt.Errorf("store: upload: %w", err)
	}
	return uploadInfo(u.rec), err
}

func (s *Store) appendTo(ctx context.Context, u *uploadState, offset int64, r io.Reader) error {
	if offset != u.rec.Offset {
		return status.Errorf(status.Conflict, "%d bytes are here, not %d; go on from there", u.rec.Offset, offset)
	}
	release, err := s.puts.Acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	r = s.admission.Reader(ctx, r)
	if u.rec.Done {
		return atEnd(r, u.rec.Length)
	}
	a := &appending{ctx: ctx, s: s, u: u}
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

// RemoveUpload ends an upload and removes what came of it: not_found or gone
// when there is none, conflict while an append runs. An object that was made of
// it stays.
func (s *Store) RemoveUpload(ctx context.Context, id string) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	u, err := s.uploads.begin(id)
	if err != nil {
		return err
	}
	defer s.uploads.end(u)
	if err := s.dropUpload(u, uploadRemoved); err != nil {
		return fmt.Errorf("store: remove an upload: %w", err)
	}
	return nil
}

// dropUpload removes an upload, which the caller holds.
func (s *Store) dropUpload(u *uploadState, why uploadEnd) error {
	if err := s.backend.DropUpload(u.rec.ID); err != nil {
		return err
	}
	s.giveUpload(u)
	s.uploads.drop(u, why)
	return nil
}

// giveUpload gives back the room and the quota that were taken for u, once.
func (s *Store) giveUpload(u *uploadState) {
	u.charge.Release()
	s.space.ReleaseWhole(u.room, u.unwritten)
	u.room, u.unwritten = meta.Count{}, 0
}

// uploadExpiry is when an upload of which bytes came now ends.
func (s *Store) uploadExpiry() meta.Second { return meta.SecondOf(time.Now().Add(s.cfg.UploadTTL)) }
