package b3

import (
	"errors"
	"io"
	"sync"
)

// batchSize is the length in bytes of a batch. It exceeds one group, so a full
// batch is never an object's only group, which hashes differently.
const batchSize = 4 * GroupSize

var errFinished = errors.New("the hasher has finished its object; call Reset before the next object")

// Hasher computes the address of a stream of unknown length and writes its
// outboard at the same time. It is not safe for concurrent use.
//
// The caller's goroutine hashes, and so do up to workers-1 helper goroutines. The
// helpers start with the first full batch of 256 KiB and end in Sum, Suspend or
// Reset. The caller must call one of these after the last Write.
//
// A Hasher allocates at most three batches for each worker, when it first needs
// them. Reset keeps them, so a reused Hasher does not allocate for an object of
// less than one batch.
type Hasher struct {
	tree    treeBuilder
	out     outboardWriter
	workers int
	size    int64 // bytes written so far
	summed  bool

	cores *HashQueue // limits the hashing; may be nil

	current *batch   // being filled; may be nil
	queue   []*batch // hashed or at a helper, in the object's order
	free    []*batch
	made    int // batches allocated, at most 3*workers

	helpers helpers
}

// helpers are the goroutines that hash beside the caller's.
type helpers struct {
	run  bool
	work chan *batch // a nil batch ends one helper
	wg   sync.WaitGroup
}

// batch is a run of consecutive groups.
type batch struct {
	buf   [batchSize]byte
	n     int   // bytes in buf
	first int64 // number of the first group

	cvs      [batchSize / GroupSize][Size]byte
	groups   int           // number of groups with a value in cvs
	atHelper bool          // sent to a helper and not yet taken back
	ready    chan struct{} // capacity 1; gets a token when the helper is done
}

// NewHasher returns a Hasher that appends the parents to out in post-order. out
// may be nil. workers is the most goroutines that hash, including the caller's;
// with 1 or less only the caller's goroutine hashes.
func NewHasher(out io.Writer, workers int) *Hasher {
	h := &Hasher{workers: max(1, workers)}
	h.Reset(out)
	return h
}

// Reset discards the current object, waits for the helpers and prepares h for the
// next object, whose parents go to out.
func (h *Hasher) Reset(out io.Writer) {
	h.stopHelpers()
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

// Write implements [io.Writer]. It does not retain p. An error is the error of the
// outboard's writer; later calls return it until Reset.
func (h *Hasher) Write(p []byte) (written int, err error) {
	for written < len(p) {
		b, err := h.writableBatch()
		if err != nil {
			return written, err
		}
		var n int
		if b.n == 0 && len(p)-written >= batchSize && h.helpersBusy() {
			// Every helper has work, so hash these bytes here, without a copy.
			n = batchSize
			b.hash(p[written:written+n], h.cores)
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

// ReadFrom implements [io.ReaderFrom]. It reads r to its end, directly into the
// buffers that are hashed. r may be an [io.TeeReader] that writes the bytes to a
// file. After 100 reads in a row without bytes it returns io.ErrNoProgress.
func (h *Hasher) ReadFrom(r io.Reader) (total int64, err error) {
	const maxEmptyReads = 100
	for emptyReads := 0; emptyReads < maxEmptyReads; emptyReads++ {
		b, err := h.writableBatch()
		if err != nil {
			return total, err
		}
		n, end := r.Read(b.buf[b.n:])
		b.n += n
		h.size += int64(n)
		total += int64(n)
		if end == io.EOF { // an error that wraps io.EOF is no regular end
			return total, nil
		}
		if end != nil {
			return total, end
		}
		if n > 0 {
			emptyReads = 0
		}
	}
	return total, io.ErrNoProgress
}

// Sum finishes the object. It hashes the remaining bytes, writes the last parents,
// waits for the helpers and returns the address and the size in bytes. An error
// is the error of the outboard's writer.
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
		return h.cores.groupCV(rest, 0, true), h.size, nil
	}
	if len(rest) > 0 {
		h.current.hash(rest, h.cores)
	}
	for len(h.queue) > 0 {
		h.collectOldest()
	}
	if len(rest) > 0 {
		h.addToTree(h.current)
	}
	h.stopHelpers()
	root := h.tree.root()
	h.out.flush()
	return root, h.size, h.out.err
}

// writableBatch returns the current batch, which has space for at least one byte.
func (h *Hasher) writableBatch() (*batch, error) {
	if h.summed {
		return nil, errFinished
	}
	if b := h.current; b != nil && b.n == len(b.buf) {
		if h.helpersBusy() {
			b.hash(b.buf[:], h.cores)
		} else {
			b.atHelper = true
			h.helpers.work <- b // never blocks: the channel has space and this is the only sender
		}
		h.current = nil
		h.enqueue(b)
	}
	if h.current == nil {
		b := h.freeBatch()
		b.n, b.first = 0, h.size/GroupSize
		h.current = b
	}
	return h.current, h.out.err
}

// helpersBusy starts the helpers and reports whether their channel is full.
func (h *Hasher) helpersBusy() bool {
	if h.workers > 1 && !h.helpers.run {
		h.startHelpers()
	}
	return len(h.helpers.work) == cap(h.helpers.work)
}

// freeBatch returns an unused batch. If every batch is in use, it waits for the
// oldest.
func (h *Hasher) freeBatch() *batch {
	if len(h.free) == 0 && h.made < 3*h.workers {
		h.made++
		return &batch{ready: make(chan struct{}, 1)}
	}
	if len(h.free) == 0 {
		h.collectOldest()
	}
	b := h.free[len(h.free)-1]
	h.free = h.free[:len(h.free)-1]
	return b
}

// enqueue appends b to the queue. It adds the oldest batch to the tree if no helper
// has that batch.
func (h *Hasher) enqueue(b *batch) {
	h.queue = append(h.queue, b)
	if !h.queue[0].atHelper {
		h.collectOldest()
	}
}

// collectOldest waits for the helper of the oldest batch and adds the batch to the
// tree.
func (h *Hasher) collectOldest() {
	b := h.queue[0]
	b.await()
	h.addToTree(b)
	h.queue = append(h.queue[:0], h.queue[1:]...)
	h.free = append(h.free, b)
}

// addToTree adds a hashed batch to the tree.
func (h *Hasher) addToTree(b *batch) {
	for _, cv := range b.cvs[:b.groups] {
		h.tree.push(cv)
	}
}

// startHelpers starts workers-1 helpers.
func (h *Hasher) startHelpers() {
	if h.helpers.work == nil {
		h.helpers.work = make(chan *batch, 2*(h.workers-1)) // bound: two batches per helper, so that none idles
	}
	for range h.workers - 1 {
		h.helpers.wg.Go(func() {
			for b := <-h.helpers.work; b != nil; b = <-h.helpers.work {
				b.hash(b.buf[:b.n], h.cores)
				b.ready <- struct{}{}
			}
		})
	}
	h.helpers.run = true
}

// stopHelpers ends the helpers, waits for them and empties the queue.
func (h *Hasher) stopHelpers() {
	if h.helpers.run {
		for range h.workers - 1 {
			h.helpers.work <- nil
		}
		h.helpers.wg.Wait()
		h.helpers.run = false
	}
	for _, b := range h.queue {
		b.await()
	}
	h.free = append(h.free, h.queue...)
	h.queue = h.queue[:0]
}

// hash computes the chaining values of the batch's groups, whose bytes are p. q limits the hashing; it may be nil.
func (b *batch) hash(p []byte, q *HashQueue) {
	b.groups = 0
	for len(p) > 0 {
		n := min(len(p), GroupSize)
		b.cvs[b.groups] = q.groupCV(p[:n], b.first+int64(b.groups), false)
		b.groups++
		p = p[n:]
	}
}

// await waits until the helper, if one has the batch, has hashed it.
func (b *batch) await() {
	if b.atHelper {
		<-b.ready
		b.atHelper = false
	}
}
