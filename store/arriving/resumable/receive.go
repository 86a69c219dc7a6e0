package resumable

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store/meta"
)

// The bytes that an append has received are saved after noteBytes or noteAge, whichever comes
// first.
const (
	noteBytes = 32 << 20
	noteAge   = 5 * time.Second
)

// appending is one append to an upload, which it has locked.
type appending struct {
	ctx context.Context // of the call
	t   *Table
	u   *state
	by  Capability    // of the caller
	st  *meta.Staging // nil before open and after Close
	h   *b3.Hasher    // nil for a small object, which commit hashes
}

// open opens the upload's files. If the disk has lost the bytes, it removes the upload and
// returns gone.
func (a *appending) open() error {
	if a.st != nil {
		return nil
	}
	if !a.t.writes.Enter() {
		return meta.ErrDraining
	}
	defer a.t.writes.Leave()
	rec := &a.u.rec
	st, err := a.t.deps.Backend.OpenUpload(*rec, a.u.hashed.OutboardSize())
	if errors.Is(err, fs.ErrNotExist) {
		a.t.report("remove an upload whose bytes are lost", a.t.discard(a.u, endedLost))
		return status.Errorf(status.Gone, "the disk has lost what was stored of the upload; begin another")
	}
	if err != nil {
		a.u.hashed = b3.HasherState{} // if the outboard failed, the next append makes it again
		return err
	}
	a.st = st
	if !meta.Small(rec.Length) {
		a.h = b3.NewHasher(nil, a.t.deps.HashWorkers)
	}
	return nil
}

// Close closes the files, without a sync.
func (a *appending) Close() {
	if a.h != nil {
		a.h.Reset(nil) // waits for its goroutines
		a.h = nil
	}
	if a.st != nil {
		a.st.Close()
		a.st = nil
	}
}

// setLabel gives the pin of the upload the label that the capability demands, and moves what
// is reserved of the quota.
func (a *appending) setLabel() error {
	rec, label := a.u.rec, a.by.Label
	switch {
	case label == "" || !rec.Pin || rec.Label == label:
		return nil
	case rec.Label != "":
		return status.Errorf(status.Forbidden, "the pin of the upload has the label %q, not %q; begin another upload",
			rec.Label, label)
	}
	charge := a.t.deps.Quotas.Charge(label)
	if err := charge.Take(meta.Count{Objects: 1, Bytes: rec.Length}); err != nil {
		return err
	}
	rec.Label = label
	if err := a.save(rec, nil); err != nil {
		charge.Release()
		return err
	}
	a.u.charge.Release()
	a.u.charge = charge
	return nil
}

// receive stores what r returns, up to its end or the end of the upload.
func (a *appending) receive(r io.Reader) error {
	for a.u.rec.Offset < a.u.rec.Length {
		if err := a.open(); err != nil {
			return err
		}
		part := &part{r: r, left: min(a.u.rec.Length-a.u.rec.Offset, noteBytes), until: time.Now().Add(noteAge)}
		if err := a.receivePart(part); err != nil {
			return err
		}
		if part.ended {
			return nil
		}
	}
	return nil
}

// receivePart writes what part returns behind the stored bytes, hashes it, and saves it. It
// also saves what came before an error of part. It does not save what the disk refused.
func (a *appending) receivePart(part *part) error {
	defer a.countSpace(0)
	at := a.u.rec.Offset
	data := &fileWriter{a: a, Appender: meta.Appender{F: a.st.Data, Off: at}}
	r := io.TeeReader(meta.FullReader{R: part}, data)
	var err error
	if a.h == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, b3.GroupSize))
	} else if err = a.hashTo(at); err == nil {
		_, err = a.h.ReadFrom(r)
	}
	mark := a.u.hashed
	if a.h != nil {
		var failed error
		if mark, failed = a.h.Suspend(); failed != nil {
			return failed // of the outboard; a.u.hashed stays as it was
		}
	}
	if data.err != nil {
		return data.err
	}
	if data.Off == at {
		a.u.hashed = mark
		return err
	}
	rec := a.u.rec
	rec.Offset, rec.Expires = data.Off, max(rec.Expires, a.t.expiry(a.by))
	if e := a.save(rec, a.st); e != nil {
		return e
	}
	a.u.hashed = mark
	return err
}

// hashTo hashes the stored bytes up to n that are not hashed yet: all of them after a
// restart, else at most one group.
func (a *appending) hashTo(n int64) error {
	outboard := meta.Appender{F: a.st.Outboard, Off: a.u.hashed.OutboardSize()}
	a.h.Resume(&fileWriter{a: a, Appender: outboard}, a.u.hashed)
	from := a.u.hashed.Size()
	if from == n {
		return nil
	}
	stored := io.NewSectionReader(a.st.Data, from, n-from)
	got, err := a.h.ReadFrom(a.t.deps.Admission.Reader(a.ctx, stored))
	if err == nil && got < n-from {
		err = io.ErrUnexpectedEOF
	}
	return meta.ReadError(err)
}

// save makes the bytes of st durable, unless st is nil, and has the backend record rec.
// After an error the state of the outboard is unknown, so it is made again.
func (a *appending) save(rec meta.Upload, st *meta.Staging) error {
	if !a.t.writes.Enter() {
		return meta.ErrDraining
	}
	defer a.t.writes.Leave()
	if err := a.t.deps.Backend.NoteUpload(rec, st); err != nil {
		a.u.hashed = b3.HasherState{}
		return err
	}
	a.t.set(a.u, rec)
	return nil
}

// countSpace updates how much of the reserved space is on the disk: the durable bytes and n
// more.
func (a *appending) countSpace(n int64) {
	if a.u.space == (meta.Count{}) {
		return // released
	}
	left := a.u.space.Bytes - a.u.rec.Offset - n
	a.t.deps.Space.NoteWritten(a.u.unwritten - left)
	a.u.unwritten = left
}

// fileWriter writes to a file of an upload while the store is open. Afterwards the next
// process may use the file.
type fileWriter struct {
	meta.Appender
	a   *appending
	err error
}

func (w *fileWriter) Write(p []byte) (int, error) {
	if !w.a.t.writes.Enter() {
		w.err = meta.ErrDraining
		return 0, w.err
	}
	defer w.a.t.writes.Leave()
	n, err := w.Appender.Write(p)
	w.err = err
	if w.F == w.a.st.Data {
		w.a.countSpace(w.Off - w.a.u.rec.Offset)
	}
	return n, err
}

// part is a section of a reader: at most left bytes, and none after the time until, once it
// has returned some. It ends with io.EOF. ended reports that the reader itself ended.
type part struct {
	r     io.Reader
	left  int64
	until time.Time
	read  bool // something was read
	ended bool
}

func (p *part) Read(b []byte) (int, error) {
	if p.left == 0 || p.read && !time.Now().Before(p.until) {
		return 0, io.EOF
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	p.read = p.read || n > 0
	p.ended = err == io.EOF
	return n, err
}

// checkEnd returns body_cap when r has more bytes.
func checkEnd(r io.Reader, length int64) error {
	switch _, full, err := meta.Fill(r, make([]byte, 1)); {
	case err != nil:
		return err
	case full:
		return status.Errorf(status.BodyCap,
			"there is more than the %d bytes that were announced; begin another upload", length)
	}
	return nil
}
