package b3

import "sync"

// readAhead reads and verifies the next group of a Section while the caller uses
// the current group, so that the disk, the hashing and the caller work at the same
// time. It is at most one group ahead: it starts the next read when the caller
// takes the group.
//
// One goroutine reads and hashes, because the bytes are then in that core's cache.
// A helper that only reads costs more than it saves. The kernel already reads
// ahead in files that are read in order; asking it for pages early gains nothing.
//
// Reading ahead helps only while a core is idle. So the [HashQueue] allows as many
// read-aheads as cores; further Sections read their groups themselves.
type readAhead struct {
	walk  *Walk
	r     *Reader
	bufs  [2]*[GroupSize]byte // [0] is the Section's buffer, in use at the start; [1] is filled first
	ready chan Proved         // unbuffered; closed after err is set
	stop  chan struct{}
	err   error
	wg    sync.WaitGroup
}

// startReadAhead continues walk, whose latest group is in the buffer used. It
// returns nil if the queue allows no more read-aheads. The caller must call close,
// which waits for the goroutine and releases its buffer, but not used.
func startReadAhead(walk *Walk, r *Reader, used *[GroupSize]byte) *readAhead {
	if !r.queue.beginReadAhead() {
		return nil
	}
	a := &readAhead{
		walk: walk, r: r,
		bufs:  [2]*[GroupSize]byte{used, groupBuffers.Get().(*[GroupSize]byte)},
		ready: make(chan Proved), stop: make(chan struct{}),
	}
	a.wg.Go(a.run)
	return a
}

func (a *readAhead) run() {
	defer a.r.queue.endReadAhead()
	defer close(a.ready)
	for i := 1; ; i ^= 1 {
		var p Proved
		if p, a.err = a.r.fillGroupInto(a.walk, a.bufs[i]); a.err != nil {
			return
		}
		select {
		case a.ready <- p: // the caller no longer uses the other buffer
		case <-a.stop:
			return
		}
	}
}

// nextGroup returns the next group. The previous group is no longer valid.
func (a *readAhead) nextGroup() (Proved, error) {
	p, ok := <-a.ready
	if !ok {
		return p, a.err
	}
	return p, nil
}

// close stops reading and waits for a read in progress.
func (a *readAhead) close() {
	close(a.stop)
	a.wg.Wait()
	groupBuffers.Put(a.bufs[1])
}
