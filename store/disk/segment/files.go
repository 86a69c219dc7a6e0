package segment

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"allium/store/disk/segment/codec"

	"allium/store/disk/fsys"
	"allium/store/disk/tables"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// activeSegment is the segment at the end of the log, to which the next batch is appended.
// f is nil when there is none.
type activeSegment struct {
	num    uint64
	epoch  uint64 // of its records
	f      vfs.File
	handle *openFile // of f
	end    int64     // offset behind the last record
}

// openFiles caches up to max segment files that are open for reading. A file that leaves
// the cache is closed when its last reader releases it.
type openFiles struct {
	max int

	mu    sync.RWMutex // lock: leaf
	files map[uint64]*openFile
}

// openFile is a file with a reference count.
type openFile struct {
	f    vfs.File
	refs atomic.Int64 // one of them is the cache's
}

// newOpenFile returns f with one reference, the caller's.
func newOpenFile(f vfs.File) *openFile {
	h := &openFile{f: f}
	h.refs.Store(1)
	return h
}

func (h *openFile) release() {
	if h.refs.Add(-1) == 0 {
		_ = h.f.Close() // every write was synced
	}
}

// get returns a segment's file, which the caller releases, or nil.
func (h *openFiles) get(num uint64) *openFile {
	h.mu.RLock()
	defer h.mu.RUnlock()
	f := h.files[num]
	if f != nil {
		f.refs.Add(1)
	}
	return f
}

// add puts f in the cache and reports whether it did. It does not when the cache is full or
// has num already.
func (h *openFiles) add(num uint64, f *openFile) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files == nil {
		h.files = map[uint64]*openFile{}
	}
	if len(h.files) >= h.max || h.files[num] != nil {
		return false
	}
	f.refs.Add(1)
	h.files[num] = f
	return true
}

// drop removes segment num from the cache.
func (h *openFiles) drop(num uint64) {
	h.mu.Lock()
	f := h.files[num]
	delete(h.files, num)
	h.mu.Unlock()
	if f != nil {
		f.release()
	}
}

// Close empties the cache.
func (h *openFiles) Close() {
	h.mu.Lock()
	open := h.files
	h.files = nil
	h.mu.Unlock()
	for _, f := range open {
		f.release()
	}
}

// roll begins the next segment if n bytes do not fit the active one. It takes a spare file
// if there is one. final reports that the sync of the directory failed.
func (s *Log) roll(n int64) (final bool, err error) {
	if s.active.f != nil && s.active.end+n <= s.segmentBytes {
		return false, nil
	}
	num, h := s.nextSeg, s.nextHeader()
	f, size := s.spares.reuse(s.path(num), h)
	if f == nil {
		if f, err = s.create(num, h); err != nil {
			return false, err
		}
		size = codec.SegmentHeaderSize
	}
	if err := fsys.SyncDir(s.fs, s.root); err != nil {
		_ = f.Close()
		return true, err
	}
	s.activate(num, h.Epoch, f, codec.SegmentHeaderSize, size)
	s.nextSeg++
	return false, nil
}

// StartSegment durably ends the active segment and begins the next one. It is called while
// the store opens, before there is a writer.
func (s *Log) StartSegment() error {
	s.sealActive()
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
	set[s.active.num] = 0
	return s.saveEnd(tables.Position{Seg: s.active.num, Off: s.active.end}, set)
}

// saveEnd durably stores the end of the log and its segments in the index.
func (s *Log) saveEnd(end tables.Position, set map[uint64]int64) error {
	b := s.index.NewBatch()
	err := errors.Join(b.SetWatermark(end, s.batchNumber), b.SetSegments(set))
	if err != nil {
		return err
	}
	return b.Apply(true)
}

// nextHeader returns the header of the next segment, which says where the log ends. Its
// random epoch cannot be foreseen, so nothing that the file held before is taken for a record.
func (s *Log) nextHeader() codec.SegmentHeader {
	h := codec.SegmentHeader{Epoch: newEpoch(), Before: s.lastEnd, LastBatch: s.batchNumber}
	if s.active.f != nil {
		h.Before = tables.Position{Seg: s.active.num, Off: s.active.end}
	}
	return h
}

func newEpoch() uint64 {
	var p [8]byte
	_, _ = rand.Read(p[:]) // never fails
	return binary.LittleEndian.Uint64(p[:])
}

// activate makes f, of size bytes, the active segment, to be written from end on.
func (s *Log) activate(num, epoch uint64, f vfs.File, end, size int64) {
	s.sealActive()
	held := newOpenFile(f)
	s.active = activeSegment{num: num, epoch: epoch, f: f, handle: held, end: end}
	s.files.add(num, held)
	s.zeros.begin(fsys.Bare(f), max(size, end), s.segmentBytes)
	s.usage.beginTail(num, end, max(size, end), s.segmentBytes/sealShare)
}

// sealActive ends the active segment. Its file may stay open for reading.
func (s *Log) sealActive() {
	written := s.zeros.stop()
	if s.active.f != nil && s.usage.sealTail(max(written, s.active.end)) {
		signal(s.wakeCompactor)
	}
	if s.active.f != nil {
		s.active.handle.release()
		s.lastEnd = tables.Position{Seg: s.active.num, Off: s.active.end}
	}
	s.active = activeSegment{}
}

// Read returns the bytes of a small object. It does not verify them.
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

// file returns the open file of a segment, which the caller releases.
func (s *Log) file(num uint64) (*openFile, error) {
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
	h := newOpenFile(f)
	if s.files.add(num, h) && !s.usage.has(num) { // retired meanwhile
		s.files.drop(num)
	}
	return h, nil
}

// Close closes all files. Serve must have returned.
func (s *Log) Close() {
	s.sealActive()
	s.files.Close()
	s.tailFile.Close()
}

// closeIdle closes the files that nobody is reading, and returns how many.
func (h *openFiles) closeIdle() int {
	h.mu.Lock()
	var idle []*openFile
	for num, f := range h.files {
		if f.refs.Load() == 1 { // the cache's; get adds one under the lock
			delete(h.files, num)
			idle = append(idle, f)
		}
	}
	h.mu.Unlock()
	for _, f := range idle {
		f.release()
	}
	return len(idle)
}
