package transfer

import (
	"cmp"
	"io"
	"slices"
	"sync"

	"allium/internal/latch"
	"allium/protocols/b3"
)

// fill writes the groups of an object to a writer, each at its place and once. The requests of the
// transfer write what they receive, so these groups are neither read back from the store nor proved
// again. Reader.Fill writes the others. Its methods are safe for concurrent use.
type fill struct {
	to     io.WriterAt
	wrote  func(n int)
	inside latch.Latch // writes in progress

	mu    sync.Mutex       // lock: leaf
	taken map[int64]uint64 // a bit for each group that is written or being written, 64 groups an entry
	err   error            // of the first write that failed
	await int64            // the group whose writer closes woken
	woken chan struct{}    // nil: nobody waits
}

// take reports whether the caller is to write group g, because nobody else has begun to.
func (f *fill) take(g int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	word, bit := g/64, uint64(1)<<(g%64)
	if f.taken[word]&bit != 0 || f.err != nil {
		return false
	}
	f.taken[word] |= bit
	if g == f.await {
		f.wake()
	}
	return true
}

// wake ends the wait of next. The caller holds mu.
func (f *fill) wake() {
	if f.woken != nil {
		close(f.woken)
		f.woken = nil
	}
}

// stride is the number of groups that arrive before the loop of Reader.fill looks at them, if all are written
// by requests: a wake-up for each would cost more than the look.
const stride = 16

// next reports whether somebody has begun to write group g, and the error of the first write that
// failed. If neither, wait is closed when more may be known: when the write of the last group of
// the stride begins that nobody has begun to write. One goroutine calls next.
func (f *fill) next(g, groups int64) (begun bool, wait <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil || f.has(g) {
		return f.err == nil, nil, f.err
	}
	f.await = min(g/stride*stride+stride, groups) - 1
	for f.has(f.await) {
		f.await-- // ends at g
	}
	f.woken = make(chan struct{})
	return false, f.woken, nil
}

// has reports whether somebody has begun to write group g. The caller holds mu.
func (f *fill) has(g int64) bool { return f.taken[g/64]&(1<<(g%64)) != 0 }

// failure returns the error of the first write that failed.
func (f *fill) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// write writes a proved group, unless somebody else has begun to or the fill has ended.
func (f *fill) write(g int64, proved []byte) {
	if !f.inside.Enter() {
		return
	}
	defer f.inside.Leave()
	if !f.take(g) {
		return
	}
	if _, err := f.to.WriteAt(proved, g*b3.GroupSize); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.err == nil {
			f.err = err
		}
		f.wake()
		return
	}
	f.wrote(len(proved))
}

// Fill writes all groups of the object to w, each once, in any order and several at a time. It calls
// wrote with the bytes of each write. When Fill returns, no write is in progress and none follows. It
// returns an error of w unchanged; the transfer goes on for its other users.
func (r *Reader) Fill(w io.WriterAt, wrote func(n int)) error {
	f := &fill{to: w, wrote: wrote, taken: map[int64]uint64{}}
	t := r.w.t
	t.fills.attach(f)
	err := r.fill(f)
	t.fills.detach(f)
	f.inside.Close()
	f.inside.CloseAndWait()
	return cmp.Or(f.failure(), err)
}

// fill writes the groups that no request writes, because they were stored before. It goes through the
// object in order, as a reader does, because the schedule fetches for the position of a reader.
func (r *Reader) fill(f *fill) error {
	t := r.w.t
	for g := int64(0); g < t.groups(); {
		r.w.at(g)
		begun, wait, err := f.next(g, t.groups())
		switch {
		case err != nil:
			return err
		case begun:
			g++
		case t.ingest.Has(g):
			p, err := r.Read(g)
			if err != nil {
				return err
			}
			f.write(g, p)
		default:
			if err := r.w.until(wait); err != nil {
				return err
			}
		}
	}
	return nil
}

// until waits until wait is closed, or until the transfer has ended well.
func (w *Waiter) until(wait <-chan struct{}) error {
	select {
	case <-wait:
		return nil
	case <-w.t.done:
		return w.t.err
	case <-w.ctx.Done():
		return w.why(nil)
	}
}

// fills are the fills of a transfer.
type fills struct {
	mu  sync.Mutex // lock: leaf
	all []*fill    // never changed in place
}

// attach lets the requests of the transfer write what they receive to f.
func (s *fills) attach(f *fill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(slices.Clone(s.all), f) // feed uses the old slice without the lock
}

func (s *fills) detach(f *fill) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(slices.Clone(s.all), func(o *fill) bool { return o == f })
}

// feed writes a group that has just been proved and stored to every fill. It comes after the store:
// so a group that a fill has missed, because it was attached later, is in the store by then.
func (s *fills) feed(p b3.Proved) {
	s.mu.Lock()
	all := s.all
	s.mu.Unlock()
	for _, f := range all {
		f.write(p.Group(), p.Data())
	}
}
