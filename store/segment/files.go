package segment

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"allium/store/segment/record"

	"allium/store/fsys"
	"allium/store/index"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tail is the end of the log: the segment that takes the next batch. f is nil
// before the first.
type tail struct {
	num   uint64
	epoch uint64 // of its records
	f     vfs.File
	held  *handle // of f
	end   int64   // of the last record
}

// handles are open segments by number, most of them at a time. A file that is
// dropped is closed when the last reader is done with it.
type handles struct {
	most int

	mu   sync.RWMutex
	open map[uint64]*handle
}

type handle struct {
	f     vfs.File
	users atomic.Int64 // one of them the map
}

// newHandle is for one user.
func newHandle(f vfs.File) *handle {
	h := &handle{f: f}
	h.users.Store(1)
	return h
}

func (h *handle) release() {
	if h.users.Add(-1) == 0 {
		_ = h.f.Close() // every write was synced
	}
}

// get returns a segment's file, to be released, or nil.
func (h *handles) get(num uint64) *handle {
	h.mu.RLock()
	defer h.mu.RUnlock()
	f := h.open[num]
	if f != nil {
		f.users.Add(1)
	}
	return f
}

// keep takes f over, unless there are too many or another one was faster.
func (h *handles) keep(num uint64, f *handle) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[uint64]*handle{}
	}
	if len(h.open) >= h.most || h.open[num] != nil {
		return false
	}
	f.users.Add(1)
	h.open[num] = f
	return true
}

// drop gives up the file of a segment that is gone.
func (h *handles) drop(num uint64) {
	h.mu.Lock()
	f := h.open[num]
	delete(h.open, num)
	h.mu.Unlock()
	if f != nil {
		f.release()
	}
}

// Close gives every file up.
func (h *handles) Close() {
	h.mu.Lock()
	open := h.open
	h.open = nil
	h.mu.Unlock()
	for _, f := range open {
		f.release()
	}
}

// roll makes room for n bytes at the end of the log: where they do not fit the
// segment, it begins the next, in a spare file if there is one.
func (s *Log) roll(n int64) (final bool, err error) {
	if s.log.f != nil && s.log.end+n <= s.size {
		return false, nil
	}
	num := s.nextSeg
	f, epoch, size := s.reuse(num)
	if f == nil {
		if f, epoch, err = s.create(num); err != nil {
			return false, err
		}
		size = record.HeaderSize
	}
	if err := fsys.SyncDir(s.fs, s.root); err != nil {
		_ = f.Close()
		return true, err
	}
	s.begin(num, epoch, f, record.HeaderSize, size)
	s.nextSeg++
	return false, nil
}

// StartSegment ends the segment that is written and begins the next one, before
// there is a writer.
func (s *Log) StartSegment() error {
	s.seal()
	if _, err := s.roll(0); err != nil {
		return err
	}
	set, _, err := s.index.Segments()
	if err != nil {
		return err
	}
	if set == nil {
		set = map[uint64]int64{}
	}
	set[s.log.num] = 0
	return s.noteLog(index.Position{Seg: s.log.num, Off: s.log.end}, set)
}

// noteLog writes down where the log ends, and its segments, durably.
func (s *Log) noteLog(end index.Position, set map[uint64]int64) error {
	b := s.index.NewBatch()
	err := errors.Join(b.SetWatermark(end, s.number), b.SetSegments(set))
	if err != nil {
		return err
	}
	return b.Apply(true)
}

// create makes a new file for a segment.
func (s *Log) create(num uint64) (f vfs.File, epoch uint64, err error) {
	if f, err = s.fs.Create(s.path(num), vfs.WriteCategoryUnspecified); err != nil {
		return nil, 0, meta.WriteError("begin a segment", err)
	}
	if epoch, err = s.writeHeader(f); err != nil {
		_ = f.Close()
		return nil, 0, meta.WriteError("begin a segment", err)
	}
	return f, epoch, nil
}

// writeHeader gives f an epoch that nobody can foresee: what was stored in the
// file before, by whomever, is not taken for a record. It says where the log ends
// until then.
func (s *Log) writeHeader(f vfs.File) (epoch uint64, err error) {
	h := record.Header{Epoch: newEpoch(), Before: s.before, Batch: s.number}
	if s.log.f != nil {
		h.Before = index.Position{Seg: s.log.num, Off: s.log.end}
	}
	return h.Epoch, record.WriteHeader(f, h)
}

func newEpoch() uint64 {
	var p [8]byte
	_, _ = rand.Read(p[:]) // never fails
	return binary.LittleEndian.Uint64(p[:])
}

// begin makes f, of size bytes, the segment that is written from end on.
func (s *Log) begin(num, epoch uint64, f vfs.File, end, size int64) {
	s.seal()
	held := newHandle(f)
	s.log = tail{num: num, epoch: epoch, f: f, held: held, end: end}
	s.files.keep(num, held)
	s.zeros.begin(fsys.Bare(f), max(size, end), s.size)
	s.use.begin(num, end, max(size, end), s.size/sealShare)
}

// seal ends the segment that was written. It stays open for reading where there
// is room.
func (s *Log) seal() {
	written := s.zeros.stop()
	if s.log.f != nil && s.use.seal(max(written, s.log.end)) {
		nudge(s.tidy)
	}
	if s.log.f != nil {
		s.log.held.release()
		s.before = index.Position{Seg: s.log.num, Off: s.log.end}
	}
	s.log = tail{}
}

// Read returns a small object's bytes.
func (s *Log) Read(e meta.Entry) ([]byte, error) {
	h, err := s.file(e.Seg)
	if err != nil {
		return nil, err
	}
	defer h.release()
	p := make([]byte, e.Size)
	n, err := h.f.ReadAt(p, e.Off)
	switch {
	case n == len(p):
		return p, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, meta.Defect("short")
	}
	return nil, meta.ReadError(err)
}

// file returns the open file of a segment, to be released.
func (s *Log) file(num uint64) (*handle, error) {
	if h := s.files.get(num); h != nil {
		return h, nil
	}
	f, err := s.fs.Open(s.path(num))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, meta.Defect("missing")
	}
	if err != nil {
		return nil, meta.ReadError(err)
	}
	h := newHandle(f)
	if s.files.keep(num, h) && !s.use.has(num) { // it was retired meanwhile
		s.files.drop(num)
	}
	return h, nil
}

// Close gives the files up; serve has returned.
func (s *Log) Close() {
	s.seal()
	s.files.Close()
	s.end.Close()
}

// shed closes the segments that nobody reads right now, and returns how many.
func (h *handles) shed() int {
	h.mu.Lock()
	var idle []*handle
	for num, f := range h.open {
		if f.users.Load() == 1 { // the map's; get adds one under the lock
			delete(h.open, num)
			idle = append(idle, f)
		}
	}
	h.mu.Unlock()
	for _, f := range idle {
		f.release()
	}
	return len(idle)
}
