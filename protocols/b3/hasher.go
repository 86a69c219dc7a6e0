package b3

import (
	"errors"
	"io"
	"sync"
)

// batchSize is how much input changes hands at a time. It is more than a group,
// so a full batch is never a whole object's only group, whose hash would differ.
const batchSize = 4 * GroupSize

var errFinished = errors.New("b3: the object was summed; Reset the hasher before the next")

// Hasher computes the address of a stream of unknown length and writes its
// outboard as it goes. It is not for concurrent use.
//
// The caller's goroutine hashes, and workers-1 helpers hash ahead of it. The
// helpers start with the first full batch of 256 KiB and end in Sum or Reset:
// one of the two must follow the last Write. Memory is bounded by three batches
// per worker, allocated when first needed and kept over Reset, so a Hasher that
// is used again does not allocate for an object of less than a batch.
type Hasher struct {
	tree    spine
	out     outboard
	workers int
	size    int64 // bytes taken in
	summed  bool

	current *batch   // being filled; may be nil
	queue   []*batch // hashed or with a helper, in order of the object
	free    []*batch
	made    int // batches in existence, at most 3*workers

	helping bool        // the helpers run
	work    chan *batch // to the helpers; nil ends one
	helpers sync.WaitGroup
}

// batch is consecutive groups on their way into the tree.
type batch struct {
	buf   [batchSize]byte
	n     int   // bytes in buf
	first int64 // number of the first group

	cvs    [batchSize / GroupSize][Size]byte
	groups int           // of cvs
	lent   bool          // a helper has it, or had it and ready holds its token
	ready  chan struct{} // capacity 1
}

// NewHasher returns a Hasher that appends the parents, in post-order, to out,
// which may be nil. workers bounds how many goroutines hash, the caller's
// included; 1 or less is the caller's alone.
func NewHasher(out io.Writer, workers int) *Hasher {
	h := &Hasher{workers: max(1, workers)}
	h.Reset(out)
	return h
}

// Reset forgets what was written, waits for the helpers and makes h ready for
// the next object, whose parents go to out.
func (h *Hasher) Reset(out io.Writer) {
	h.join()
	if h.current != nil {
		h.free = append(h.free, h.current)
		h.current = nil
	}
	h.tree.groups, h.tree.depth, h.tree.out = 0, 0, nil
	h.out.w, h.out.err, h.out.filled = out, nil, 0
	if out != nil {
		h.tree.out = &h.out
	}
	h.size, h.summed = 0, false
}

// Write implements [io.Writer]. It does not keep p. An error is that of the
// outboard's writer, and stays until Reset.
func (h *Hasher) Write(p []byte) (written int, err error) {
	for written < len(p) {
		b, err := h.room()
		if err != nil {
			return written, err
		}
		var n int
		if b.n == 0 && len(p)-written >= batchSize && h.busy() {
			// Nobody takes a copy of these bytes, so hash them where they are.
			n = batchSize
			b.hash(p[written : written+n])
			h.current = nil
			h.enqueue(b)
		} else {
			n = copy(b.buf[b.n:], p[written:])
			b.n += n
		}
		h.size += int64(n)
		written += n
	}
	return written, h.out.err
}

// ReadFrom implements [io.ReaderFrom]: it reads r to its end into the buffers
// that it hashes from. r may be an [io.TeeReader], which puts the same bytes
// into a file without another copy.
func (h *Hasher) ReadFrom(r io.Reader) (total int64, err error) {
	const patience = 100 // reads of nothing before giving up
	for idle := 0; idle < patience; idle++ {
		b, err := h.room()
		if err != nil {
			return total, err
		}
		n, end := r.Read(b.buf[b.n:])
		b.n += n
		h.size += int64(n)
		total += int64(n)
		if end == io.EOF { // no other error, though it wrap EOF, is a sound end
			return total, nil
		}
		if end != nil {
			return total, end
		}
		if n > 0 {
			idle = 0
		}
	}
	return total, io.ErrNoProgress
}

// Sum ends the object: it hashes what is left, writes the last parents, waits
// for the helpers and returns address and size in bytes. An error is that of the
// outboard's writer.
func (h *Hasher) Sum() (Root, int64, error) {
	if h.summed {
		return Root{}, 0, errFinished
	}
	h.summed = true
	var rest []byte
	if h.current != nil {
		rest = h.current.buf[:h.current.n]
	}
	if h.size <= GroupSize {
		return groupCV(rest, 0, true), h.size, nil
	}
	if len(rest) > 0 {
		h.current.hash(rest)
	}
	for len(h.queue) > 0 {
		h.collect()
	}
	if len(rest) > 0 {
		h.take(h.current)
	}
	h.join()
	root := h.tree.root()
	h.out.flush()
	return root, h.size, h.out.err
}

// room returns the current batch, with room for at least one byte.
func (h *Hasher) room() (*batch, error) {
	if h.summed {
		return nil, errFinished
	}
	if b := h.current; b != nil && b.n == len(b.buf) {
		if h.busy() {
			b.hash(b.buf[:])
		} else {
			b.lent = true
			h.work <- b // has room: nobody else sends
		}
		h.current = nil
		h.enqueue(b)
	}
	if h.current == nil {
		b := h.fresh()
		b.n, b.first = 0, h.size/GroupSize
		h.current = b
	}
	return h.current, h.out.err
}

// busy reports whether every helper has a batch waiting, and starts them.
func (h *Hasher) busy() bool {
	if h.workers > 1 && !h.helping {
		h.help()
	}
	return len(h.work) == cap(h.work)
}

// fresh returns a batch that nothing uses, waiting for the oldest if need be.
func (h *Hasher) fresh() *batch {
	if len(h.free) == 0 && h.made < 3*h.workers {
		h.made++
		return &batch{ready: make(chan struct{}, 1)}
	}
	if len(h.free) == 0 {
		h.collect()
	}
	b := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	return b
}

// enqueue puts b in its place behind the batches before it.
func (h *Hasher) enqueue(b *batch) {
	h.queue = append(h.queue, b)
	if !h.queue[0].lent {
		h.collect()
	}
}

// collect adds the oldest batch to the tree, waiting for its helper.
func (h *Hasher) collect() {
	b := h.queue[0]
	b.await()
	h.take(b)
	h.queue = append(h.queue[:0], h.queue[1:]...)
	h.free = append(h.free, b)
}

// take adds a hashed batch to the tree.
func (h *Hasher) take(b *batch) {
	for _, cv := range b.cvs[:b.groups] {
		h.tree.push(cv)
	}
}

// help starts the helpers.
func (h *Hasher) help() {
	if h.work == nil {
		h.work = make(chan *batch, 2*(h.workers-1)) // bound: two batches per helper, so that none falls asleep while the caller hashes
	}
	for range h.workers - 1 {
		h.helpers.Go(func() {
			for b := <-h.work; b != nil; b = <-h.work {
				b.hash(b.buf[:b.n])
				b.ready <- struct{}{}
			}
		})
	}
	h.helping = true
}

// join ends the helpers, waits for them and empties the queue.
func (h *Hasher) join() {
	if h.helping {
		for range h.workers - 1 {
			h.work <- nil
		}
		h.helpers.Wait()
		h.helping = false
	}
	for _, b := range h.queue {
		b.await()
	}
	h.free = append(h.free, h.queue...)
	h.queue = h.queue[:0]
}

// hash computes the chaining values of p, the batch's groups.
func (b *batch) hash(p []byte) {
	b.groups = 0
	for len(p) > 0 {
		n := min(len(p), GroupSize)
		b.cvs[b.groups] = groupCV(p[:n], b.first+int64(b.groups), false)
		b.groups++
		p = p[n:]
	}
}

// await takes the batch back from its helper.
func (b *batch) await() {
	if b.lent {
		<-b.ready
		b.lent = false
	}
}
