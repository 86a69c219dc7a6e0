package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tail is the end of the log: the segment that takes the next batch. f is nil
// before the first.
type tail struct {
	num uint64 // of the segment, and its epoch
	f   vfs.File
	end int64 // of the last record
}

// maxHandles bounds the segments kept open for reading; others are opened for
// each read.
const maxHandles = 512

// handles are open segments by number.
type handles struct {
	mu   sync.RWMutex
	open map[uint64]vfs.File
}

func (h *handles) get(num uint64) vfs.File {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.open[num]
}

// keep takes f over, unless there are too many or another one was faster.
func (h *handles) keep(num uint64, f vfs.File) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil {
		h.open = map[uint64]vfs.File{}
	}
	if len(h.open) >= maxHandles || h.open[num] != nil {
		return false
	}
	h.open[num] = f
	return true
}

func (h *handles) close() {
	h.mu.Lock()
	open := h.open
	h.open = nil
	h.mu.Unlock()
	for _, f := range open {
		_ = f.Close() // every write was synced
	}
}

func segmentName(num uint64) string { return fmt.Sprintf("%016x.seg", num) }

// parseSegmentName is the inverse of segmentName.
func parseSegmentName(name string) (uint64, bool) {
	num, err := strconv.ParseUint(name[:max(0, len(name)-len(".seg"))], 16, 64)
	return num, err == nil && num > 0 && segmentName(num) == name
}

func (s *segments) path(num uint64) string { return s.fs.PathJoin(s.dir, segmentName(num)) }

// roll makes room for n bytes at the end of the log: where they do not fit the
// segment, it begins the next.
func (s *segments) roll(n int64) (final bool, err error) {
	if s.log.f != nil && s.log.end+n <= s.size {
		return false, nil
	}
	f, err := s.fs.Create(s.path(s.nextSeg), vfs.WriteCategoryUnspecified)
	if err != nil {
		return false, writeError("begin a segment", err)
	}
	var header [segmentHeaderSize]byte
	putSegmentHeader(header[:], s.nextSeg)
	if _, err := f.WriteAt(header[:], 0); err != nil {
		_ = f.Close()
		return false, writeError("begin a segment", err)
	}
	if err := syncDir(s.fs, s.dir); err != nil {
		_ = f.Close()
		return true, err
	}
	s.begin(s.nextSeg, f, segmentHeaderSize, segmentHeaderSize)
	s.nextSeg++
	return false, nil
}

// begin makes f, of size bytes, the segment that is written from end on.
func (s *segments) begin(num uint64, f vfs.File, end, size int64) {
	s.seal()
	s.log = tail{num: num, f: f, end: end}
	s.files.keep(num, f)
	s.zeros.begin(f, max(size, end))
}

// seal ends the segment that was written. It stays open for reading where there
// is room.
func (s *segments) seal() {
	s.zeros.stop()
	if s.log.f != nil && s.files.get(s.log.num) != s.log.f {
		_ = s.log.f.Close()
	}
	s.log = tail{}
}

// read returns a small object's bytes.
func (s *segments) read(e entry) ([]byte, error) {
	f := s.files.get(e.seg)
	if f == nil {
		var err error
		if f, err = s.fs.Open(s.path(e.seg)); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil, damage("missing")
			}
			return nil, readError(err)
		}
		if !s.files.keep(e.seg, f) {
			defer f.Close()
		}
	}
	p := make([]byte, e.size)
	n, err := f.ReadAt(p, e.off)
	switch {
	case n == len(p):
		return p, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, damage("short")
	}
	return nil, readError(err)
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
