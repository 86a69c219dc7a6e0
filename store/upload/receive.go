package upload

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

// A crash costs an upload at most about what comes between two notes.
const (
	noteBytes = 32 << 20
	noteAge   = 5 * time.Second
)

// appending is one append to an upload, which it holds.
type appending struct {
	ctx context.Context // of the call
	t   *Table
	u   *state
	st  *meta.Staging // nil before open and after close
	h   *b3.Hasher    // nil for a small object, which is hashed at the end
}

// open opens the upload's files. Bytes that are gone, which is the disk's doing,
// end it.
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
		return status.Errorf(status.Gone, "the disk has lost what was here of it; begin another")
	}
	if err != nil {
		a.u.hashed = b3.Mark{} // if it was the outboard, the next append makes it anew
		return err
	}
	a.st = st
	if !meta.Small(rec.Length) {
		a.h = b3.NewHasher(nil, a.t.deps.HashWorkers)
	}
	return nil
}

// close gives the files up. What is to stay was synced.
func (a *appending) Close() {
	if a.h != nil {
		a.h.Reset(nil) // joins its goroutines
		a.h = nil
	}
	if a.st != nil {
		a.st.Close()
		a.st = nil
	}
}

// receive takes in what r gives, to its end or the upload's.
func (a *appending) receive(r io.Reader) error {
	for a.u.rec.Offset < a.u.rec.Length {
		if err := a.open(); err != nil {
			return err
		}
		part := &portion{r: r, left: min(a.u.rec.Length-a.u.rec.Offset, noteBytes), until: time.Now().Add(noteAge)}
		if err := a.take(part); err != nil {
			return err
		}
		if part.ended {
			return nil
		}
	}
	return nil
}

// take writes what part gives behind what is here, hashes it, and notes it. What
// came before part failed is noted too; what the disk did not take is not.
func (a *appending) take(part *portion) error {
	defer a.count(0)
	at := a.u.rec.Offset
	data := &fileWriter{a: a, Appender: meta.Appender{F: a.st.Data, Off: at}}
	r := io.TeeReader(meta.FullReader{R: part}, data)
	var err error
	if a.h == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, b3.GroupSize))
	} else if err = a.hash(at); err == nil {
		_, err = a.h.ReadFrom(r)
	}
	mark := a.u.hashed
	if a.h != nil {
		var failed error
		if mark, failed = a.h.Suspend(); failed != nil {
			return failed // the outboard's; what was hashed before is there
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
	rec.Offset, rec.Expires = data.Off, a.t.expiry()
	if e := a.note(rec, a.st); e != nil {
		return e
	}
	a.u.hashed = mark
	return err
}

// hash brings the hasher up to the first n bytes, which are in the file: after
// a restart all of them, else at most one group.
func (a *appending) hash(n int64) error {
	a.h.Resume(&fileWriter{a: a, Appender: meta.Appender{F: a.st.Outboard, Off: a.u.hashed.OutboardSize()}}, a.u.hashed)
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

// note makes what st has durable, when it is not nil, and then has the backend
// note rec. After a sync that failed nothing is known of the outboard.
func (a *appending) note(rec Record, st *meta.Staging) error {
	if !a.t.writes.Enter() {
		return meta.ErrDraining
	}
	defer a.t.writes.Leave()
	if err := a.t.deps.Backend.NoteUpload(rec, st); err != nil {
		a.u.hashed = b3.Mark{}
		return err
	}
	a.t.set(a.u, rec)
	return nil
}

// count notes how much of the space that was reserved is on the disk: the bytes that
// are durable and n more.
func (a *appending) count(n int64) {
	if a.u.space == (meta.Count{}) {
		return // given back
	}
	left := a.u.space.Bytes - a.u.rec.Offset - n
	a.t.deps.Space.Wrote(a.u.unwritten - left)
	a.u.unwritten = left
}

// fileWriter writes to a file of an upload, while the store is open: after
// that the next process may be at it.
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
		w.a.count(w.Off - w.a.u.rec.Offset)
	}
	return n, err
}

// portion is a part of a reader: at most left bytes, and what comes until a
// time. It ends with io.EOF, and ended says that the reader did.
type portion struct {
	r     io.Reader
	left  int64
	until time.Time
	got   bool
	ended bool
}

func (p *portion) Read(b []byte) (int, error) {
	if p.left == 0 || p.got && !time.Now().Before(p.until) {
		return 0, io.EOF
	}
	n, err := p.r.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	p.got = p.got || n > 0
	p.ended = err == io.EOF
	return n, err
}

// atEnd returns body_cap when r has more to give.
func atEnd(r io.Reader, length int64) error {
	switch _, full, err := meta.Fill(r, make([]byte, 1)); {
	case err != nil:
		return err
	case full:
		return status.Errorf(status.BodyCap, "there is more than the %d bytes that were announced; begin another upload", length)
	}
	return nil
}
