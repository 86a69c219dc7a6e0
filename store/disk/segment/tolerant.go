package segment

import (
	"errors"
	"io"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tolerantFile reads a file on a disk with unreadable pages. Each such page reads as bytes
// that are no record.
type tolerantFile struct{ vfs.File }

// unreadableByte fills a page of unreadablePage bytes that the disk cannot read.
const (
	unreadableByte = 0xa5
	unreadablePage = 4096
)

// ReadAt implements [io.ReaderAt].
func (f tolerantFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if !errors.Is(err, syscall.EIO) {
		return n, err
	}
	for n = 0; n < len(p); {
		page := p[n:min(len(p), n+unreadablePage-int((off+int64(n))%unreadablePage))]
		m, err := f.File.ReadAt(page, off+int64(n))
		if errors.Is(err, syscall.EIO) {
			for i := range page {
				page[i] = unreadableByte
			}
			m, err = len(page), nil
		}
		if n += m; err != nil {
			return n, err
		}
	}
	return n, nil
}

var _ io.ReaderAt = tolerantFile{}
