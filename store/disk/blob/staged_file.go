package blob

import (
	"sync/atomic"

	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// stagedFile is a file of a large object that is being written. It starts writeback
// early, which keeps the final sync short and the number of dirty pages small.
type stagedFile struct {
	f       vfs.File
	space   func(need int64) error
	written atomic.Int64 // since writeback was last started
}

// writebackEvery is the number of bytes that are written between checks of the free space. Each
// check also starts writeback.
const writebackEvery = 8 << 20

// WriteAt implements io.WriterAt. It is safe for concurrent use with different ranges.
// It returns no_space, after it has written p, when the reserve of the disk is used.
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

func (s *stagedFile) sync() error { return s.f.SyncData() }

// Close implements io.Closer.
func (s *stagedFile) Close() error { return s.f.Close() }
