package segment

import (
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// zeroer writes zeros ahead of the end of the active segment, so that a commit
// overwrites blocks that the file system knows already and its fdatasync has no
// metadata to write. That pays when commits are small, and costs writing
// everything twice when they are large, so only small commits ask for it, and
// for no more than was committed so far: a store of a few objects stays small.
//
// Writer and zeroer never write the same bytes: both claim a range first.
type zeroer struct {
	most int64 // bytes ahead; 0 turns it off

	wg sync.WaitGroup // the goroutine, when one runs

	mu        sync.Mutex
	f         vfs.File
	claimed   int64 // everything below is written or being written
	limit     int64 // where the segment is closed: no zeros behind it
	want      int64 // how far to go
	committed int64 // since the segment was begun or opened
	running   bool
	chunk     zeroChunk // what is being written now
}

// zeroChunk is one write of zeros. Its channel is nil when none is under way.
type zeroChunk struct {
	from int64
	done chan struct{}
}

const (
	zeroChunkSize = 1 << 20
	// smallCommit is the size up to which a commit is better off on zeros.
	smallCommit = 512 << 10
)

var zeroBytes [zeroChunkSize]byte

// begin turns to a new active segment, of which everything below size is
// written and which is closed at limit. The previous one was stopped.
func (z *zeroer) begin(f vfs.File, size, limit int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.f, z.claimed, z.limit, z.want, z.committed = f, size, limit, 0, 0
}

// stop ends the goroutine and waits for it. It returns the size of the file as
// far as the zeroer knows.
func (z *zeroer) stop() (written int64) {
	z.mu.Lock()
	z.want = 0
	written = z.claimed
	z.mu.Unlock()
	z.wg.Wait()
	return written
}

// claim makes what is below to the writer's, and waits for zeros on their way
// there.
func (z *zeroer) claim(to int64) {
	z.mu.Lock()
	z.claimed = max(z.claimed, to)
	c := z.chunk
	z.mu.Unlock()
	if c.done != nil && c.from < to {
		<-c.done
	}
}

// ahead is told of a commit of n bytes that ended at end.
func (z *zeroer) ahead(n, end int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.committed += n
	if n > smallCommit {
		return
	}
	room := min(z.most, z.committed)
	if z.claimed-end >= room/2 {
		return
	}
	z.want = min(end+room, z.limit)
	if !z.running {
		z.running = true
		z.wg.Go(z.run)
	}
}

// run writes zeros until there are enough.
func (z *zeroer) run() {
	for {
		f, from, to := z.next()
		if f == nil {
			return
		}
		_, err := f.WriteAt(zeroBytes[:to-from], from)
		z.wrote(err)
	}
}

// next claims the next chunk; f is nil when there is none.
func (z *zeroer) next() (f vfs.File, from, to int64) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.claimed >= z.want {
		z.running = false
		return nil, 0, 0
	}
	from, to = z.claimed, min(z.claimed+zeroChunkSize, z.want)
	z.claimed = to
	z.chunk = zeroChunk{from: from, done: make(chan struct{})}
	return z.f, from, to
}

// wrote ends a chunk. A failed one is no loss: the writer will see the same
// error, or none.
func (z *zeroer) wrote(err error) {
	z.mu.Lock()
	done := z.chunk.done
	z.chunk = zeroChunk{}
	if err != nil {
		z.want = 0
	}
	z.mu.Unlock()
	close(done)
}
