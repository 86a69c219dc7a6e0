package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/quota"
)

// PutOptions say what a put is held to.
type PutOptions struct {
	Expect   b3.Root       // other content is refused with bad_digest; zero takes any
	Deferred bool          // acknowledged by the next Flush, not visible before it is durable
	Charge   *quota.Charge // counts what is new before it is written, and refuses with quota; may be nil
	Size     int64         // bytes that are to come, as far as known: no_space or quota before the first of them is read; 0 is unknown
}

// Info describes one object.
type Info struct {
	Root    b3.Root
	Size    int64 // bytes
	New     bool  // of a put: the bytes were stored, not found there whole
	Corrupt bool  // of a listing: its bytes failed a check and are not served
}

// headBuffers holds *[]byte of one group and a byte, enough to tell a small
// object from a large one.
var headBuffers = sync.Pool{New: func() any { b := make([]byte, b3.GroupSize+1); return &b }}

// Put stores what r gives, to its end, and returns its address. The object is
// durable when Put returns, unless it is Deferred. An error of r, the end of ctx
// and bad_digest leave nothing behind; no_space says that the disk is full.
func (s *Store) Put(ctx context.Context, r io.Reader, opt PutOptions) (Info, error) {
	release, err := s.puts.Acquire(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("store: put: %w", err)
	}
	defer release()
	if err := s.fits(ctx, opt); err != nil {
		return Info{}, fmt.Errorf("store: put: %w", err)
	}
	head := headBuffers.Get().(*[]byte)
	defer headBuffers.Put(head)
	r = s.admission.Reader(ctx, r)
	n, full, err := meta.Fill(r, *head)
	if err != nil {
		return Info{}, fmt.Errorf("store: put: read the data: %w", err)
	}
	if !full {
		return s.putSmall(ctx, (*head)[:n], opt)
	}
	return s.putLarge(ctx, io.MultiReader(bytes.NewReader((*head)[:n]), r), opt)
}

// fits refuses what has no place as a whole. It takes nothing: others may be
// faster, and then the put ends where there is no more space.
func (s *Store) fits(ctx context.Context, opt PutOptions) error {
	if opt.Size <= 0 {
		return nil
	}
	if opt.Size > b3.MaxSize {
		return status.Errorf(status.BodyCap, "%d bytes are more than an object may have", opt.Size)
	}
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	if err := opt.Charge.Fits(opt.Size); err != nil {
		return err
	}
	reserved := meta.Count{Objects: 1, Bytes: meta.StoredSize(opt.Size)}
	if err := s.space.ReserveWhole(ctx, reserved); err != nil {
		return err
	}
	s.space.ReleaseWhole(reserved, reserved.Bytes)
	return nil
}

// PutBytes is Put of p, which it does not keep.
func (s *Store) PutBytes(ctx context.Context, p []byte, opt PutOptions) (Info, error) {
	if meta.Small(int64(len(p))) {
		return s.putSmall(ctx, p, opt)
	}
	return s.Put(ctx, bytes.NewReader(p), opt)
}

// Flush returns nil when everything put before it with Deferred is visible and
// durable. Once a deferred object was lost, every Flush returns the error.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.admit(ctx); err != nil {
		return err
	}
	defer s.leave()
	if err := s.backend.Flush(ctx); err != nil {
		return fmt.Errorf("store: flush: %w", err)
	}
	return nil
}

func (s *Store) putSmall(ctx context.Context, p []byte, opt PutOptions) (Info, error) {
	root := b3.Sum(p)
	if err := s.allowed(root, opt.Expect); err != nil {
		return Info{}, err
	}
	info, err := s.commitSmall(ctx, root, p, opt)
	if err != nil {
		return Info{}, fmt.Errorf("store: put: %w", err)
	}
	return info, nil
}

// commitSmall stores p, which hashes to root.
func (s *Store) commitSmall(ctx context.Context, root b3.Root, p []byte, opt PutOptions) (Info, error) {
	if err := s.admit(ctx); err != nil {
		return Info{}, err
	}
	defer s.leave()
	s.leases.Acquire(root)
	defer s.leases.Release(root)
	info := Info{Root: root, Size: int64(len(p))}
	there, err := s.settled(ctx, root)
	if err != nil || there {
		return info, err
	}
	if err := opt.Charge.Take(meta.Count{Objects: 1, Bytes: info.Size}); err != nil {
		return info, err
	}
	reserved := meta.Count{Objects: 1, Bytes: s.space.Taking(info.Size)}
	if err := s.space.Reserve(ctx, reserved); err != nil {
		return info, err
	}
	defer func() { s.space.Release(reserved) }()
	put := func() error {
		var err error
		info.New, err = s.backend.Put(ctx, root, p, opt.Deferred, func() {
			s.space.Release(reserved)
			reserved = meta.Count{}
		})
		return err
	}
	err = put()
	for try := range ramTries {
		if s.cfg.Backend != BackendMemory || status.Of(err) != status.NoSpace {
			break
		}
		err = s.besideMore(ctx, reserved.Bytes<<(2*try), put)
	}
	if err == nil {
		s.arrived(root, manifest.IsManifest(p))
	}
	return info, err
}

// keepSmall stores p, which came otherwise than in a put and hashes to root.
func (s *Store) keepSmall(ctx context.Context, root b3.Root, p []byte, deferred bool) (isNew bool, err error) {
	info, err := s.commitSmall(ctx, root, p, PutOptions{Deferred: deferred})
	return info.New, err
}

// ramTries is how often a small object is put again that found no block free
// in RAM: the room that it was given is an estimate, too high by no more than
// what others are about to put, and each time four times as much is made.
const ramTries = 5

// besideMore calls put while there is room for n bytes more.
func (s *Store) besideMore(ctx context.Context, n int64, put func() error) error {
	more := meta.Count{Bytes: n}
	if err := s.space.Reserve(ctx, more); err != nil {
		return err
	}
	defer s.space.Release(more)
	return put()
}

// arrived notes the use of a root, which the caller leases, that was just put,
// and tells the collection under way of one that may be a directory.
func (s *Store) arrived(root b3.Root, directory bool) {
	s.used(root, s.clock.Stamp())
	if directory {
		s.gc.Arrived(root)
	}
}

// found is told of an object that the backend found whole among its files, and
// made visible.
func (s *Store) found(ctx context.Context, root b3.Root, size int64) {
	s.leases.Acquire(root)
	s.arrived(root, size <= manifest.MaxNode)
	s.leases.Release(root)
	s.partials.Outgrown(ctx, root)
}

// settled reports whether root, which the caller leases, is there and whole.
// Then it is used by this.
func (s *Store) settled(ctx context.Context, root b3.Root) (bool, error) {
	if err := s.leases.Settle(ctx, root); err != nil {
		return false, err
	}
	e, ok, err := s.backend.Get(root)
	if err != nil || !ok || e.Corrupt {
		return false, err
	}
	return true, s.usedOrWait(ctx, root, e.Added)
}

// putLarge streams r, which holds more than one group, into a staged object.
func (s *Store) putLarge(ctx context.Context, r io.Reader, opt PutOptions) (Info, error) {
	count := opt.Charge.Reader(r)
	reserved, err := s.space.Reader(ctx, count)
	if err != nil { // before the disk is touched
		return Info{}, fmt.Errorf("store: put: %w", err)
	}
	st, err := s.stage(b3.Root{})
	if err != nil {
		reserved.Release()
		return Info{}, fmt.Errorf("store: put: %w", err)
	}
	root, size, err := s.receive(st, reserved)
	if err == nil {
		err = s.allowed(root, opt.Expect)
	}
	if err != nil {
		count.Settle(false)
		s.discard(st)
		st.Close()
		reserved.Release()
		return Info{}, err
	}
	isNew, err := s.commitLarge(ctx, root, size, st, opt.Deferred, func() {
		st.Close()
		reserved.Release()
	})
	count.Settle(err == nil && isNew)
	if err != nil {
		return Info{}, fmt.Errorf("store: put: %w", err)
	}
	s.partials.Outgrown(ctx, root)
	return Info{Root: root, Size: size, New: isNew}, nil
}

// receive writes r to st as it hashes it.
func (s *Store) receive(st *meta.Staging, r io.Reader) (b3.Root, int64, error) {
	data := &meta.Appender{F: st.Data}
	h := b3.NewHasher(&meta.Appender{F: st.Outboard}, s.cfg.HashWorkers)
	_, err := h.ReadFrom(io.TeeReader(meta.FullReader{R: r}, data))
	if err != nil {
		h.Reset(nil) // joins its goroutines
		return b3.Root{}, 0, fmt.Errorf("store: put: %w", err)
	}
	root, size, err := h.Sum()
	if err != nil {
		err = fmt.Errorf("store: put: %w", err)
	}
	return root, size, err
}

// commitLarge publishes a staged object, whose bytes hash to root, or discards
// it when root is there already; a part that was noted and cannot be published
// now stays. It calls done once, when st's files are not
// needed any more: for a deferred object that is later.
func (s *Store) commitLarge(ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func()) (isNew bool, err error) {
	s.leases.Acquire(root)
	through := func() {
		s.leases.Release(root)
		done()
	}
	if err := s.enter(); err != nil {
		through()
		return false, err
	}
	defer s.leave()
	there, err := s.settled(ctx, root)
	if err != nil || there {
		if there || !st.Kept && !st.Owned {
			s.report("discard", s.backend.Discard(st))
		}
		through()
		return false, err
	}
	return s.backend.Publish(ctx, root, size, st, deferred, func() {
		s.arrived(root, size <= manifest.MaxNode)
		through()
	})
}

// stage makes room for a large object.
func (s *Store) stage(root b3.Root) (*meta.Staging, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.backend.Stage(root)
}

// discard removes what st holds. On the way down that is left to the next
// start, which may be another process that owns the names by then.
func (s *Store) discard(st *meta.Staging) {
	if s.enter() != nil {
		return
	}
	defer s.leave()
	s.report("discard", s.backend.Discard(st))
}

// report logs an error that no caller can act on.
func (s *Store) report(op string, err error) {
	if err != nil {
		s.log.Warn("the store could not clean up; the next start will", "op", op, "err", err)
	}
}

// allowed says whether an object with that address may be stored where expect is
// wanted; a zero expect takes any.
func (s *Store) allowed(root, expect b3.Root) error {
	if !expect.IsZero() && expect != root {
		return badDigest(expect, root)
	}
	return s.denied(root)
}
