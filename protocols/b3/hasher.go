package b3

import (
	"errors"
	"io"
	"sync"
)

// batchSize is how much input one worker hashes at a time.
const batchSize = 4 * GroupSize

var errFinished = errors.New("b3: the hasher was summed; Reset it before the next object")

// Hasher computes the address of a stream of unknown length and writes its
// outboard as it goes. It is not for concurrent use.
//
// With one worker it hashes on the caller's goroutine. With more, full batches
// go to that many goroutines, which start with the first full batch and end in
// Sum or Reset: a Hasher that got data must see one of them. Memory is bounded
// by two batches of 256 KiB per worker, allocated when first needed and kept
// over Reset.
type Hasher struct {
	spine   spine
	workers int
	size    int64 // bytes taken in
	current *batch
	done    bool

	free    []*batch    // not in use
	queued  []*batch    // handed to the workers, oldest first
	running bool        // the workers are
	work    chan *batch // to the workers; nil ends one
	wg      sync.WaitGroup
}

// batch is consecutive groups on their way through a worker.
type batch struct {
	buf   [batchSize]byte
	n     int   // bytes in buf
	first int64 // number of its first group
	cvs   [batchSize / GroupSize][Size]byte
	ready chan struct{} // one token when cvs are computed
}

// NewHasher returns a Hasher that appends the parents, in post-order, to
// outboard, which may be nil. workers bounds the goroutines that hash; below 2
// there are none.
func NewHasher(outboard io.Writer, workers int) *Hasher {
	h := &Hasher{workers: max(1, workers)}
	h.spine.reset(outboard)
	return h
}

// Reset forgets what was written, waits for the goroutines and makes h ready
// for the next object, whose parents go to outboard.
func (h *Hasher) Reset(outboard io.Writer) {
	h.join()
	h.free = append(h.free, h.queued...)
	h.queued = h.queued[:0]
	if h.current != nil {
		h.current.n = 0
	}
	h.spine.reset(outboard)
	h.size, h.done = 0, false
}

// Write implements [io.Writer]. It does not keep p. An error is the outboard
// writer's, and stays.
func (h *Hasher) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		b, err := h.room()
		if err != nil {
			return written, err
		}
		n := copy(b.buf[b.n:], p)
		b.n += n
		h.size += int64(n)
		written += n
		p = p[n:]
	}
	return written, h.spine.err
}

// ReadFrom implements [io.ReaderFrom]: it hashes r to its end without a copy. Of
// an io.TeeReader it hashes the buffer that the other writer was given.
func (h *Hasher) ReadFrom(r io.Reader) (total int64, err error) {
	for {
		b, err := h.room()
		if err != nil {
			return total, err
		}
		n, err := r.Read(b.buf[b.n:])
		b.n += n
		h.size += int64(n)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// Sum ends the object: it hashes what is left, writes the last parents, waits
// for the goroutines and returns address and size in bytes. An error is the
// outboard writer's.
func (h *Hasher) Sum() (Root, int64, error) {
	if h.done {
		return Root{}, 0, errFinished
	}
	h.done = true
	var root Root
	if h.size <= GroupSize {
		var p []byte
		if h.current != nil {
			p = h.current.buf[:h.current.n]
		}
		root = groupCV(p, 0, true)
	} else {
		b := h.current
		b.first = (h.size - int64(b.n)) / GroupSize
		b.hash()
		for len(h.queued) > 0 {
			h.collect()
		}
		h.take(b)
		root = h.spine.root()
		h.spine.flush()
	}
	h.join()
	return root, h.size, h.spine.err
}

// room returns the current batch with room for at least one byte.
func (h *Hasher) room() (*batch, error) {
	if h.done {
		return nil, errFinished
	}
	if b := h.current; b != nil && b.n == len(b.buf) {
		b.first = h.size/GroupSize - int64(len(b.cvs))
		h.submit(b)
		h.current = nil
	}
	if h.current == nil {
		h.current = h.fresh()
	}
	return h.current, h.spine.err
}

// fresh returns an empty batch, waiting for the oldest when all are in use.
func (h *Hasher) fresh() *batch {
	if len(h.free) == 0 {
		if len(h.queued) < 2*h.workers-1 {
			return &batch{ready: make(chan struct{}, 1)}
		}
		h.collect()
	}
	b := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	b.n = 0
	return b
}

// submit has b hashed: here, or by a worker.
func (h *Hasher) submit(b *batch) {
	if h.workers == 1 {
		b.hash()
		h.take(b)
		h.free = append(h.free, b)
		return
	}
	if !h.running {
		h.start()
	}
	h.queued = append(h.queued, b)
	h.work <- b
}

// collect waits for the oldest batch and adds it to the tree.
func (h *Hasher) collect() {
	b := h.queued[0]
	<-b.ready
	h.take(b)
	h.queued = append(h.queued[:0], h.queued[1:]...)
	h.free = append(h.free, b)
}

// take adds a hashed batch to the tree.
func (h *Hasher) take(b *batch) {
	for i := range (b.n + GroupSize - 1) / GroupSize {
		h.spine.push(b.cvs[i])
	}
}

func (h *Hasher) start() {
	if h.work == nil {
		h.work = make(chan *batch, 2*h.workers) // bound: the Hasher's batches
	}
	for range h.workers {
		h.wg.Go(func() {
			for b := range h.work {
				if b == nil {
					return
				}
				b.hash()
				b.ready <- struct{}{}
			}
		})
	}
	h.running = true
}

// join ends the workers and waits for them.
func (h *Hasher) join() {
	if !h.running {
		return
	}
	for range h.workers {
		h.work <- nil
	}
	h.wg.Wait()
	for _, b := range h.queued {
		<-b.ready
	}
	h.running = false
}

// hash computes the chaining values of the batch's groups.
func (b *batch) hash() {
	for i, p := int64(0), b.buf[:b.n]; len(p) > 0; i++ {
		n := min(len(p), GroupSize)
		b.cvs[i] = groupCV(p[:n], b.first+i, false)
		p = p[n:]
	}
}
