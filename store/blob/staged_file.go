package blob

import (
	"sync/atomic"

	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stagedFile is a file of a large object on its way in. It starts writeback
// early, so that the sync at the end is short and few dirty pages gather.
type stagedFile struct {
	f       vfs.File
	space   func(need int64) error
	written atomic.Int64 // since writeback was last started
}

// writebackEvery is how many bytes are written between two looks at the disk.
const writebackEvery = 8 << 20

// WriteAt implements io.WriterAt; it may be called concurrently for different
// ranges.
func (s *stagedFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := s.f.WriteAt(p, off)
	if err != nil {
		return n, meta.WriteError("write a file", err)
	}
	if total := s.written.Add(int64(n)); total >= writebackEvery {
		s.written.Store(0)
		if err := s.space(0); err != nil {
			return n, err
		}
		startWriteback(s.f, max(0, off+int64(n)-total), total)
	}
	return n, nil
}

// ReadAt implements io.ReaderAt.
func (s *stagedFile) ReadAt(p []byte, off int64) (int, error) { return s.f.ReadAt(p, off) }

// Close implements io.Closer.
func (s *stagedFile) Close() error { return s.f.Close() }
