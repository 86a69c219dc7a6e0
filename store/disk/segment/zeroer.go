package segment

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// zeroer writes zeros ahead of the end of the active segment. A commit then overwrites
// allocated blocks, and its fdatasync has no metadata to write. This helps small commits,
// but writes everything twice for large ones. So only small commits extend the zeros, by at
// most as many bytes as were committed so far: a store with few objects stays small.
//
// The writer and the zeroer never write the same bytes: both claim a range first.
type zeroer struct {
	maxAhead int64 // most bytes of zeros ahead of the end; 0 turns the zeroer off

	wg sync.WaitGroup // the goroutine of run, if it runs

	mu        sync.Mutex // lock: leaf
	f         vfs.File
	claimed   int64 // bytes below are written or being written
	limit     int64 // size at which the segment is closed; no zeros behind it
	target    int64 // offset up to which zeros are wanted
	committed int64 // bytes committed since the segment was begun or opened
	running   bool
	chunk     zeroChunk // being written
}

// zeroChunk is one write of zeros. done is nil when no write is in progress.
type zeroChunk struct {
	from int64
	done chan struct{}
}

const (
	zeroChunkSize = 1 << 20
	// smallCommit is the largest commit, in bytes, that gains from zeros.
	smallCommit = 512 << 10
)

var zeroBytes [zeroChunkSize]byte

// begin starts a new active segment, whose bytes below size are written and which is closed
// at limit. The caller has called stop for the previous one.
func (z *zeroer) begin(f vfs.File, size, limit int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.f, z.claimed, z.limit, z.target, z.committed = f, size, limit, 0, 0
}

// stop ends the goroutine and waits for it. It returns the known size of the file.
func (z *zeroer) stop() (written int64) {
	z.mu.Lock()
	z.target = 0
	written = z.claimed
	z.mu.Unlock()
	z.wg.Wait()
	return written
}

// claimForWriter gives the bytes below to to the writer. It waits for a write of zeros
// there.
func (z *zeroer) claimForWriter(to int64) {
	z.mu.Lock()
	z.claimed = max(z.claimed, to)
	c := z.chunk
	z.mu.Unlock()
	if c.done != nil && c.from < to {
		<-c.done
	}
}

// noteCommit notes a commit of n bytes that ended at offset end, and starts the goroutine
// when more zeros are wanted.
func (z *zeroer) noteCommit(n, end int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.committed += n
	if n > smallCommit {
		return
	}
	ahead := min(z.maxAhead, z.committed)
	if z.claimed-end >= ahead/2 {
		return
	}
	z.target = min(end+ahead, z.limit)
	if !z.running {
		z.running = true
		z.wg.Go(z.run)
	}
}

// run writes zeros up to the target.
func (z *zeroer) run() {
	for {
		f, from, to := z.nextChunk()
		if f == nil {
			return
		}
		_, err := f.WriteAt(zeroBytes[:to-from], from)
		z.chunkDone(err)
	}
}

// nextChunk claims the next chunk. f is nil when the target is reached.
func (z *zeroer) nextChunk() (f vfs.File, from, to int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.claimed >= z.target {
		z.running = false
		return nil, 0, 0
	}
	from, to = z.claimed, min(z.claimed+zeroChunkSize, z.target)
	z.claimed = to
	z.chunk = zeroChunk{from: from, done: make(chan struct{})}
	return z.f, from, to
}

// chunkDone ends a chunk. After an error the zeroer stops until the next commit, which
// reports the error if it persists.
func (z *zeroer) chunkDone(err error) {
	z.mu.Lock()
	done := z.chunk.done
	z.chunk = zeroChunk{}
	if err != nil {
		z.target = 0
	}
	z.mu.Unlock()
	close(done)
}
