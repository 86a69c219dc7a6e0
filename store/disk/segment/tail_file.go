package segment

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"

	"allium/store/disk/tables"
	"allium/store/meta"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// FileTail is the file that holds the end of the log: segment u64, offset u64, batch u64,
// CRC u32. It is written without sync after each synced batch. When the process is killed
// the kernel still has it, although the index may lose its last writes; so a log that was
// cut is told from one that ended there. After a power cut it may be older than the log. It
// is never ahead of the log.
const (
	FileTail = "TAIL"
	tailSize = 3*8 + 4
)

func encodeTail(p []byte, end tables.Position, batch uint64) []byte {
	p = binary.LittleEndian.AppendUint64(p, end.Seg)
	p = binary.LittleEndian.AppendUint64(p, uint64(end.Off))
	p = binary.LittleEndian.AppendUint64(p, batch)
	return binary.LittleEndian.AppendUint32(p, crc32.Checksum(p, meta.Castagnoli))
}

// decodeTail reverses encodeTail. ok is false when p is not the whole file or its CRC is
// wrong.
func decodeTail(p []byte) (end tables.Position, batch uint64, ok bool) {
	if len(p) != tailSize || !meta.Checksummed(p) {
		return tables.Position{}, 0, false
	}
	end, batch, err := tables.DecodeWatermark(p[:24])
	return end, batch, err == nil
}

// tailWriter writes the file FileTail. The zero value does nothing.
type tailWriter struct {
	f   vfs.File
	buf []byte
}

// open opens or creates the file and returns the end of the log that it holds. end is zero
// when the file is new, damaged or unreadable.
func (e *tailWriter) open(dir *segmentDir, log *slog.Logger) (end tables.Position, err error) {
	name := dir.fs.PathJoin(dir.fs.PathDir(dir.root), FileTail)
	f, err := dir.fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tables.Position{}, meta.WriteError("open "+FileTail, err)
	}
	if err != nil {
		if f, err = dir.fs.Create(name, vfs.WriteCategoryUnspecified); err != nil {
			return tables.Position{}, meta.WriteError("create "+FileTail, err)
		}
	}
	e.f = f
	var p [tailSize]byte
	if _, err := f.ReadAt(p[:], 0); err != nil && !errors.Is(err, io.EOF) {
		log.Warn("cannot read where the log ended; the log is used as it is", "file", FileTail, "err", err)
		return tables.Position{}, nil
	}
	end, _, _ = decodeTail(p[:])
	return end, nil
}

// write replaces the content of the file. An error is ignored: the next sync of the index
// records the same.
func (e *tailWriter) write(end tables.Position, batch uint64) {
	if e.f == nil {
		return
	}
	e.buf = encodeTail(e.buf[:0], end, batch)
	_, _ = e.f.WriteAt(e.buf, 0)
}

// Close closes the file.
func (e *tailWriter) Close() {
	if e.f != nil {
		_ = e.f.Close() // the file is only a hint
		e.f = nil
	}
}
