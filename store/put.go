package store

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"

	"allium/internal/tracing"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
	"allium/store/quota"
)

// PutOptions are the options of one put.
type PutOptions struct {
	// Expect is the address that the bytes must hash to, else the put returns
	// bad_digest. Zero accepts any bytes.
	Expect b3.Root

	// Deferred makes the put return before the object is durable. The next
	// successful Flush makes it durable; it is not visible before.
	Deferred bool

	// Charge counts new objects before they are written, and refuses with quota.
	// It may be nil.
	Charge *quota.Charge

	// Size is the expected number of bytes, 0 if unknown. A put that is too large
	// returns no_space or quota before it reads the first byte.
	Size int64

	// Proved is the item of the bytes that PutBytes puts, if they are the whole of a small object: they were hashed
	// then, and are not hashed again.
	Proved b3.Proved

	// Watch is told of a large object while it is read, unless it is nil.
	Watch Watch
}

// rootOf returns the address of p, the bytes of a small object.
func (o *PutOptions) rootOf(p []byte) b3.Root {
	group := o.Proved.Data()
	whole := !o.Proved.IsParent() && o.Proved.SizeProved() && int64(len(group)) == o.Proved.Size()
	if o.Proved.Valid() && whole && len(p) > 0 && len(p) == len(group) && &p[0] == &group[0] {
		return o.Proved.Root()
	}
	return b3.Sum(p)
}

// Watch is told how far a put has come, so that the bytes can be read before the put ends. They are not proved then:
// nobody knows the address yet. A put calls the methods one after the other, and never for an object of one group.
type Watch interface {
	// Arrived is called when the first n bytes are in file, after each group at the latest.
	Arrived(file io.ReaderAt, n int64)
	// Closing is called once after Arrived was called, before the file is closed. It returns when nobody reads it.
	Closing()
}

// headBuffers holds *[]byte of one group plus one byte: enough to tell a small
// object from a large one.
var headBuffers = sync.Pool{New: func() any { b := make([]byte, b3.GroupSize+1); return &b }}

// Put reads r to its end, stores the bytes as one object and returns its
// address. The object is durable when Put returns, unless it is Deferred. Put
// leaves nothing behind if r fails, if ctx ends, or if it returns bad_digest. It
// returns no_space when the disk is full. At most Config.Puts puts run at once
// and Params.PutsWait wait; the next returns busy.
func (s *Store) Put(ctx context.Context, r io.Reader, opt PutOptions) (info Info, err error) {
	ctx, span := tracing.Child(ctx, "store")
	defer func() { span.End(err) }()
	release, err := s.puts.Acquire(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("put: %w", err)
	}
	defer release()
	if err := s.checkSpace(ctx, opt); err != nil {
		return Info{}, fmt.Errorf("put: %w", err)
	}
	head := headBuffers.Get().(*[]byte)
	defer headBuffers.Put(head)
	r = s.admission.Reader(ctx, r)
	n, full, err := meta.Fill(r, *head)
	if err != nil {
		return Info{}, fmt.Errorf("put: read the data: %w", err)
	}
	if !full {
		return s.putSmall(ctx, (*head)[:n], opt)
	}
	return s.putLarge(ctx, io.MultiReader(bytes.NewReader((*head)[:n]), r), opt)
}

// checkSpace returns an error if opt.Size bytes do not fit now. It reserves
// nothing: if other puts take the space first, this put fails while it writes.
func (s *Store) checkSpace(ctx context.Context, opt PutOptions) error {
	if opt.Size <= 0 {
		return nil
	}
	if opt.Size > b3.MaxSize {
		return status.Errorf(status.BodyCap, "%d bytes are too many for one object; the limit is %d",
			opt.Size, int64(b3.MaxSize))
	}
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	defer s.admission.Leave()
	if err := opt.Charge.Fits(opt.Size); err != nil {
		return err
	}
	reserved := meta.Count{Objects: 1, Bytes: meta.StoredSize(opt.Size)}
	if err := s.space.ReserveUnwritten(ctx, reserved); err != nil {
		return err
	}
	s.space.ReleaseUnwritten(reserved, reserved.Bytes)
	return nil
}

// PutBytes is Put of the bytes p. It does not keep p. A small p does not wait for
// one of Config.Puts places.
func (s *Store) PutBytes(ctx context.Context, p []byte, opt PutOptions) (Info, error) {
	if meta.Small(int64(len(p))) {
		return s.putSmall(ctx, p, opt)
	}
	return s.Put(ctx, bytes.NewReader(p), opt)
}

// Flush returns nil when every earlier Deferred put is visible and durable. Once
// a deferred object is lost, every later Flush returns the error.
func (s *Store) Flush(ctx context.Context) error {
	if err := s.admission.EnterContext(ctx); err != nil {
		return err
	}
	defer s.admission.Leave()
	if err := s.backend.Flush(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}

func (s *Store) putSmall(ctx context.Context, p []byte, opt PutOptions) (Info, error) {
	root := opt.rootOf(p)
	if err := s.allowed(root, opt.Expect); err != nil {
		return Info{}, err
	}
	info, err := s.commitSmall(ctx, root, p, opt)
	if err != nil {
		return Info{}, fmt.Errorf("put: %w", err)
	}
	return info, nil
}

// commitSmall stores p, which hashes to root.
func (s *Store) commitSmall(ctx context.Context, root b3.Root, p []byte, opt PutOptions) (Info, error) {
	if err := s.admission.EnterContext(ctx); err != nil {
		return Info{}, err
	}
	defer s.admission.Leave()
	s.leases.Acquire(root)
	defer s.leases.Release(root)
	info := Info{Root: root, Size: int64(len(p))}
	if stored, err := s.alreadyStored(ctx, root); err != nil || stored {
		return info, err
	}
	if err := opt.Charge.Take(meta.Count{Objects: 1, Bytes: info.Size}); err != nil {
		return info, err
	}
	reserved := meta.Count{Objects: 1, Bytes: s.space.PutSize(info.Size)}
	if err := s.space.Reserve(ctx, reserved); err != nil {
		return info, err
	}
	defer func() { s.space.Release(reserved) }()
	put := func() error {
		var err error
		info.New, err = s.backend.Put(ctx, root, p, opt.Deferred, func() {
			s.space.Release(reserved) // the backend's Totals count the object from here on
			reserved = meta.Count{}
		})
		return err
	}
	err := put()
	for try := range ramTries {
		if s.cfg.Backend != BackendMemory || status.Of(err) != status.NoSpace {
			break
		}
		err = s.withMoreSpace(ctx, reserved.Bytes<<(2*try), put)
	}
	if err == nil {
		s.noteStored(root, manifest.IsManifest(p))
	}
	return info, err
}

// storeSmall stores p, which hashes to root, for a download or an upload.
func (s *Store) storeSmall(ctx context.Context, root b3.Root, p []byte, deferred bool) (isNew bool, err error) {
	info, err := s.commitSmall(ctx, root, p, PutOptions{Deferred: deferred})
	return info.New, err
}

// ramTries is the maximum number of times that commitSmall retries a put into the memory backend
// that found no free block. The free space is an estimate: it may be too high by what other puts
// are about to store. Each try reserves four times as much as the one before.
const ramTries = 5

// withMoreSpace calls put while n more bytes are reserved.
func (s *Store) withMoreSpace(ctx context.Context, n int64, put func() error) error {
	more := meta.Count{Bytes: n}
	if err := s.space.Reserve(ctx, more); err != nil {
		return err
	}
	defer s.space.Release(more)
	return put()
}

// noteStored notes a use of root, which was just stored and which the caller
// leases. It tells a running collection of an object that may be a directory.
func (s *Store) noteStored(root b3.Root, directory bool) {
	s.uses.Note(root, s.clock.Stamp())
	if directory {
		s.gc.ObjectAdded(root)
	}
}

// noteAdopted is called when the backend has found an object whole among its files
// and made it visible.
func (s *Store) noteAdopted(ctx context.Context, root b3.Root, size int64) {
	s.leases.Acquire(root)
	s.noteStored(root, size <= manifest.MaxNode)
	s.leases.Release(root)
	s.partials.DropCompleted(ctx, root)
}

// alreadyStored waits for a removal of root to end and reports whether root is
// stored whole. If so, it notes a use. The caller leases root.
func (s *Store) alreadyStored(ctx context.Context, root b3.Root) (bool, error) {
	if err := s.leases.Settle(ctx, root); err != nil {
		return false, err
	}
	e, ok, err := s.backend.Get(root)
	if err != nil || !ok || e.Corrupt {
		return false, err
	}
	return true, s.uses.NoteOrFlush(ctx, root, e.Added)
}

// putLarge stores r, which has more than one group, through a staged file.
func (s *Store) putLarge(ctx context.Context, r io.Reader, opt PutOptions) (Info, error) {
	count := opt.Charge.Reader(r)
	reserved, err := s.space.Reader(ctx, count)
	if err != nil { // before the disk is touched
		return Info{}, fmt.Errorf("put: %w", err)
	}
	st, err := s.stage(b3.Root{})
	if err != nil {
		reserved.Release()
		return Info{}, fmt.Errorf("put: %w", err)
	}
	root, size, err := s.receive(st, reserved, opt.Watch)
	if err == nil {
		err = s.allowed(root, opt.Expect)
	}
	closing := func() {
		if opt.Watch != nil {
			opt.Watch.Closing()
		}
	}
	if err != nil {
		count.Finish(false)
		s.discard(st)
		closing()
		st.Close()
		reserved.Release()
		return Info{}, err
	}
	isNew, err := s.commitLarge(ctx, root, size, st, opt.Deferred, func() {
		closing()
		st.Close()
		reserved.Release()
	})
	count.Finish(err == nil && isNew)
	if err != nil {
		return Info{}, fmt.Errorf("put: %w", err)
	}
	s.partials.DropCompleted(ctx, root)
	return Info{Root: root, Size: size, New: isNew}, nil
}

// receive writes r to st while it hashes it. watch may be nil.
func (s *Store) receive(st *meta.Staging, r io.Reader, watch Watch) (b3.Root, int64, error) {
	data := &meta.Appender{F: st.Data}
	h := s.hash.Hasher(&meta.Appender{F: st.Outboard}, s.cfg.HashWorkers)
	from := io.Reader(meta.FullReader{R: r})
	to := io.Writer(data)
	if watch != nil {
		from, to = groupReader{from}, watchedWriter{data, st.Data, watch}
	}
	_, err := h.ReadFrom(io.TeeReader(from, to))
	if err != nil {
		h.Reset(nil) // waits for its goroutines
		return b3.Root{}, 0, fmt.Errorf("put: %w", err)
	}
	root, size, err := h.Sum()
	if err != nil {
		err = fmt.Errorf("put: %w", err)
	}
	return root, size, err
}

// commitLarge publishes a staged object, whose bytes hash to root, or discards it
// if root is already stored. If publishing fails, a download that has a
// checkpoint stays, and so does an upload. commitLarge calls done once, when the
// files of st are no longer needed. For a deferred object that may be after it
// returns.
func (s *Store) commitLarge(
	ctx context.Context, root b3.Root, size int64, st *meta.Staging, deferred bool, done func(),
) (isNew bool, err error) {
	s.leases.Acquire(root)
	finish := func() {
		s.leases.Release(root)
		done()
	}
	if err := s.admission.Enter(); err != nil {
		finish()
		return false, err
	}
	defer s.admission.Leave()
	stored, err := s.alreadyStored(ctx, root)
	if err != nil || stored {
		if stored || !st.Kept && !st.Owned {
			s.logCleanup("discard", s.backend.Discard(st))
		}
		finish()
		return false, err
	}
	return s.backend.Publish(ctx, root, size, st, deferred, func() {
		s.noteStored(root, size <= manifest.MaxNode)
		finish()
	})
}

// stage opens files for a large object.
func (s *Store) stage(root b3.Root) (*meta.Staging, error) {
	if err := s.admission.Enter(); err != nil {
		return nil, err
	}
	defer s.admission.Leave()
	return s.backend.Stage(root)
}

// discard removes the files of st. While the store closes it does nothing: the
// next start removes them, possibly in another process that owns the names then.
func (s *Store) discard(st *meta.Staging) {
	if s.admission.Enter() != nil {
		return
	}
	defer s.admission.Leave()
	s.logCleanup("discard", s.backend.Discard(st))
}

// logCleanup logs an error of cleaning up, which no caller can act on.
func (s *Store) logCleanup(op string, err error) {
	if err != nil {
		s.log.Warn("the store could not clean up; the next start will", "op", op, "err", err)
	}
}

// allowed returns an error if root must not be stored, or is not the address that
// the caller expects. A zero expect accepts any address.
func (s *Store) allowed(root, expect b3.Root) error {
	if !expect.IsZero() && expect != root {
		return badDigest(expect, root)
	}
	return s.filter.Object(root)
}

// putAgain stores the bytes of an object that was moved out.
func (s *Store) putAgain(ctx context.Context, r io.Reader, root b3.Root, size int64) error {
	_, err := s.Put(ctx, r, PutOptions{Expect: root, Size: size})
	return err
}
