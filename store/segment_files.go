package store

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"
	"sync/atomic"

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

// maxHandles bounds the segments kept open for reading; others are opened for
// each read.
const maxHandles = 512

// handles are open segments by number. A file that is dropped is closed when
// the last reader is done with it.
type handles struct {
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
	if len(h.open) >= maxHandles || h.open[num] != nil {
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

func (h *handles) close() {
	h.mu.Lock()
	open := h.open
	h.open = nil
	h.mu.Unlock()
	for _, f := range open {
		f.release()
	}
}

const segmentSuffix = ".seg"

func segmentName(num uint64) string { return fmt.Sprintf("%016x"+segmentSuffix, num) }

// parseSegmentName is the inverse of segmentName.
func parseSegmentName(name string) (uint64, bool) {
	num, err := strconv.ParseUint(name[:max(0, len(name)-len(segmentSuffix))], 16, 64)
	return num, err == nil && num > 0 && segmentName(num) == name
}

func (s *segments) path(num uint64) string { return s.fs.PathJoin(s.dir, segmentName(num)) }

// roll makes room for n bytes at the end of the log: where they do not fit the
// segment, it begins the next, in a spare file if there is one.
func (s *segments) roll(n int64) (final bool, err error) {
	if s.log.f != nil && s.log.end+n <= s.size {
		return false, nil
	}
	num := s.nextSeg
	f, epoch, size := s.reuse(num)
	if f == nil {
		if f, epoch, err = s.create(num); err != nil {
			return false, err
		}
		size = segmentHeaderSize
	}
	if err := syncDir(s.fs, s.dir); err != nil {
		_ = f.Close()
		return true, err
	}
	s.begin(num, epoch, f, segmentHeaderSize, size)
	s.nextSeg++
	return false, nil
}

// create makes a new file for a segment.
func (s *segments) create(num uint64) (f vfs.File, epoch uint64, err error) {
	if f, err = s.fs.Create(s.path(num), vfs.WriteCategoryUnspecified); err != nil {
		return nil, 0, writeError("begin a segment", err)
	}
	if epoch, err = writeSegmentHeader(f); err != nil {
		_ = f.Close()
		return nil, 0, writeError("begin a segment", err)
	}
	return f, epoch, nil
}

// writeSegmentHeader gives f an epoch that nobody can foresee: what was stored
// in the file before, by whomever, is not taken for a record.
func writeSegmentHeader(f vfs.File) (epoch uint64, err error) {
	var p [8]byte
	_, _ = rand.Read(p[:]) // never fails
	epoch = binary.LittleEndian.Uint64(p[:])
	var header [segmentHeaderSize]byte
	putSegmentHeader(header[:], epoch)
	_, err = f.WriteAt(header[:], 0)
	return epoch, err
}

// begin makes f, of size bytes, the segment that is written from end on.
func (s *segments) begin(num, epoch uint64, f vfs.File, end, size int64) {
	s.seal()
	held := newHandle(f)
	s.log = tail{num: num, epoch: epoch, f: f, held: held, end: end}
	s.files.keep(num, held)
	s.zeros.begin(f, max(size, end), s.size)
	s.use.begin(num, end, max(size, end), s.size/sealShare)
}

// seal ends the segment that was written. It stays open for reading where there
// is room.
func (s *segments) seal() {
	written := s.zeros.stop()
	if s.log.f != nil && s.use.seal(max(written, s.log.end)) {
		nudge(s.tidy)
	}
	if s.log.f != nil {
		s.log.held.release()
	}
	s.log = tail{}
}

// read returns a small object's bytes.
func (s *segments) read(e entry) ([]byte, error) {
	h, err := s.file(e.seg)
	if err != nil {
		return nil, err
	}
	defer h.release()
	p := make([]byte, e.size)
	n, err := h.f.ReadAt(p, e.off)
	switch {
	case n == len(p):
		return p, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, damage("short")
	}
	return nil, readError(err)
}

// file returns the open file of a segment, to be released.
func (s *segments) file(num uint64) (*handle, error) {
	if h := s.files.get(num); h != nil {
		return h, nil
	}
	f, err := s.fs.Open(s.path(num))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, damage("missing")
	}
	if err != nil {
		return nil, readError(err)
	}
	h := newHandle(f)
	if s.files.keep(num, h) && !s.use.has(num) { // it was retired meanwhile
		s.files.drop(num)
	}
	return h, nil
}

// syncDir makes the names in dir durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return writeError("sync a directory", err)
	}
	err = d.Sync()
	if e := d.Close(); err == nil {
		err = e
	}
	return writeError("sync a directory", err)
}

// close gives the files up; serve has returned.
func (s *segments) close() {
	s.seal()
	s.files.close()
}
