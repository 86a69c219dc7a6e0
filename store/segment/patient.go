package segment

import (
	"errors"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// patient reads a file of which the disk cannot read parts: those are bytes that
// are no record, a page at a time.
type patient struct{ vfs.File }

// unreadable is what a page holds that the disk cannot read.
const (
	unreadable     = 0xa5
	unreadablePage = 4096
)

// ReadAt implements [io.ReaderAt].
func (f patient) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if !errors.Is(err, syscall.EIO) {
		return n, err
	}
	for n = 0; n < len(p); {
		page := p[n:min(len(p), n+unreadablePage-int((off+int64(n))%unreadablePage))]
		m, err := f.File.ReadAt(page, off+int64(n))
		if errors.Is(err, syscall.EIO) {
			for i := range page {
				page[i] = unreadable
			}
			m, err = len(page), nil
		}
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

var _ io.ReaderAt = patient{}
