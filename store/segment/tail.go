package segment

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"

	"allium/store/index"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// fileTail is where the log ends, written without sync after each batch that was
// synced: segment u64, offset u64, batch u64, CRC u32. When the process is
// killed, the kernel still has it, while the index may lose its last writes: so a
// log that was cut is told from one that ended there. After a power cut it may be
// older; it is never ahead of the log.
const (
	FileTail = "TAIL"
	tailSize = 3*8 + 4
)

func encodeTail(p []byte, end index.Position, batch uint64) []byte {
	p = binary.LittleEndian.AppendUint64(p, end.Seg)
	p = binary.LittleEndian.AppendUint64(p, uint64(end.Off))
	p = binary.LittleEndian.AppendUint64(p, batch)
	return binary.LittleEndian.AppendUint32(p, crc32.Checksum(p, meta.Castagnoli))
}

// decodeTail is the inverse of encodeTail.
func decodeTail(p []byte) (end index.Position, batch uint64, ok bool) {
	if len(p) != tailSize || !meta.Checksummed(p) {
		return index.Position{}, 0, false
	}
	end, batch, err := index.DecodeWatermark(p[:24])
	return end, batch, err == nil
}

// openTail opens the file and returns what it says, or else nothing: then it is
// new, or was being written when the power failed.
func (s *Log) openTail() (end index.Position, err error) {
	name := s.fs.PathJoin(s.fs.PathDir(s.root), FileTail)
	f, err := s.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return index.Position{}, meta.WriteError("open "+FileTail, err)
	}
	if err != nil {
		if f, err = s.fs.Create(name, vfs.WriteCategoryUnspecified); err != nil {
			return index.Position{}, meta.WriteError("create "+FileTail, err)
		}
	}
	s.end.f = f
	var p [tailSize]byte
	if _, err := f.ReadAt(p[:], 0); err != nil && !errors.Is(err, io.EOF) {
		s.logger.Warn("the file that says where the log ends cannot be read; the log is taken as it is", "err", err)
		return index.Position{}, nil
	}
	end, _, _ = decodeTail(p[:])
	return end, nil
}

// endFile is the open file.
type endFile struct {
	f   vfs.File
	buf []byte
}

// note writes where the log ends. What fails here costs only what the file is for.
func (e *endFile) note(end index.Position, batch uint64) {
	if e.f == nil {
		return
	}
	e.buf = encodeTail(e.buf[:0], end, batch)
	_, _ = e.f.WriteAt(e.buf, 0) // the index says the same, with its next sync
}

// Close gives the file up.
func (e *endFile) Close() {
	if e.f != nil {
		_ = e.f.Close() // nothing in it is needed
		e.f = nil
	}
}
