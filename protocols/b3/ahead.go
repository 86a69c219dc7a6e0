package b3

import "sync"

// ahead reads and proves the next group of a Section while the one before it is
// used, so that a disk, the hashing and whoever takes the bytes work at the same
// time. It is one group ahead and never more: it begins the next read when the
// group that it has is taken.
//
// The hashing goes with the reading, as the bytes are then in that core's cache;
// a helper that only reads costs more than it saves. Below it is the kernel's
// own reading ahead of files read in order, which asking for pages early does
// not improve on.
//
// Reading ahead pays where a core has nothing else to do, so the [HashQueue]
// bounds it to as many sections at a time as cores; the others read their groups
// in turn.
type ahead struct {
	walk  *Walk
	r     *Reader
	bufs  [2]*[GroupSize]byte // the Section's, in use when this one starts, and the one to fill first
	ready chan Proved         // not buffered; closed at the end, after err is set
	stop  chan struct{}
	err   error
	wg    sync.WaitGroup
}

// newAhead goes on with walk, whose latest group is in used; nil when enough
// others do. close gives back what it takes, but for used.
func newAhead(walk *Walk, r *Reader, used *[GroupSize]byte) *ahead {
	if !r.queue.beginAhead() {
		return nil
	}
	a := &ahead{
		walk: walk, r: r, bufs: [2]*[GroupSize]byte{used, groupBuffers.Get().(*[GroupSize]byte)},
		ready: make(chan Proved), stop: make(chan struct{}),
	}
	a.wg.Go(a.run)
	return a
}

func (a *ahead) run() {
	defer a.r.queue.endAhead()
	defer close(a.ready)
	for i := 1; ; i ^= 1 {
		var p Proved
		if p, a.err = a.r.fillWhole(a.walk, a.bufs[i]); a.err != nil {
			return
		}
		select {
		case a.ready <- p: // what is in the other buffer was used
		case <-a.stop:
			return
		}
	}
}

// group returns the next group; the one before it is given up.
func (a *ahead) group() (Proved, error) {
	p, ok := <-a.ready
	if !ok {
		return p, a.err
	}
	return p, nil
}

// close ends the reading, and waits for a read that is under way.
func (a *ahead) close() {
	close(a.stop)
	a.wg.Wait()
	groupBuffers.Put(a.bufs[1])
}
