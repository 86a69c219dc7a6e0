package codec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/store/disk/tables"
	"allium/store/meta"
)

// FileSuffix is the suffix of the file name of a segment.
const FileSuffix = ".seg"

// FileName returns the file name of a segment: its number in 16 hex digits, and FileSuffix.
func FileName(num uint64) string { return fmt.Sprintf("%016x"+FileSuffix, num) }

// ParseFileName returns the number in a name that FileName made. ok is false for any other
// name.
func ParseFileName(name string) (num uint64, ok bool) {
	num, err := strconv.ParseUint(name[:max(0, len(name)-len(FileSuffix))], 16, 64)
	return num, err == nil && num > 0 && FileName(num) == name
}

// SegmentHeader is the header of a segment.
type SegmentHeader struct {
	OldFormat bool // format 1 or 2: records have no batch number, and Before and LastBatch are 0
	Format3   bool // pins have no targets
	Epoch     uint64
	Before    tables.Position // where the previous segment ends; zero for none
	LastBatch uint64          // number of the last batch before this segment
}

// Size returns the length of the header in bytes, which is also the offset of the first
// record.
func (h SegmentHeader) Size() int64 {
	if h.OldFormat {
		return oldSegmentHeaderSize
	}
	return SegmentHeaderSize
}

// recordHeaderSize returns the length of a record header in this segment.
func (h SegmentHeader) recordHeaderSize() int {
	if h.OldFormat {
		return oldRecordHeaderSize
	}
	return RecordHeaderSize
}

// encode writes the header in the current format into the first SegmentHeaderSize bytes of
// p.
func (h SegmentHeader) encode(p []byte) {
	clear(p[:SegmentHeaderSize])
	copy(p, segmentMagic)
	binary.LittleEndian.PutUint64(p[16:], h.Epoch)
	binary.LittleEndian.PutUint64(p[24:], h.Before.Seg)
	binary.LittleEndian.PutUint64(p[32:], uint64(h.Before.Off))
	binary.LittleEndian.PutUint64(p[40:], h.LastBatch)
	binary.LittleEndian.PutUint32(p[60:], crc32.Checksum(p[:60], meta.Castagnoli))
}

// decodeSegmentHeader parses a segment header of any known format. ok is false when p does
// not start with one.
func decodeSegmentHeader(p []byte) (h SegmentHeader, ok bool) {
	switch {
	case len(p) >= SegmentHeaderSize && (string(p[:16]) == segmentMagic || string(p[:16]) == segmentMagic3) &&
		meta.Checksummed(p[:SegmentHeaderSize]):
		h = SegmentHeader{
			Format3: string(p[:16]) == segmentMagic3,
			Epoch:   binary.LittleEndian.Uint64(p[16:]), LastBatch: binary.LittleEndian.Uint64(p[40:]),
			Before: tables.Position{
				Seg: binary.LittleEndian.Uint64(p[24:]), Off: int64(binary.LittleEndian.Uint64(p[32:])),
			},
		}
		return h, h.Before.Off >= 0 && h.Before.Off <= meta.MaxSegmentBytes
	case len(p) >= oldSegmentHeaderSize && string(p[:16]) == oldSegmentMagic &&
		meta.Checksummed(p[:oldSegmentHeaderSize]):
		return SegmentHeader{OldFormat: true, Epoch: binary.LittleEndian.Uint64(p[16:])}, true
	}
	return SegmentHeader{}, false
}

// WriteSegmentHeader writes h to the beginning of f, without sync.
func WriteSegmentHeader(f vfs.File, h SegmentHeader) error {
	var header [SegmentHeaderSize]byte
	h.encode(header[:])
	_, err := f.WriteAt(header[:], 0)
	return err
}

// ReadSegmentHeader returns the size of the segment file and its header. ok is false when
// the file starts with anything else, and head holds those bytes. size is 0 when f has no
// Stat method.
func ReadSegmentHeader(f io.ReaderAt) (size int64, h SegmentHeader, ok bool, head []byte, err error) {
	if st, is := f.(interface{ Stat() (vfs.FileInfo, error) }); is {
		info, err := st.Stat()
		if err != nil {
			return 0, h, false, nil, meta.ReadError(err)
		}
		size = info.Size()
	}
	p := make([]byte, SegmentHeaderSize)
	if _, err := f.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, h, false, nil, meta.ReadError(err)
	}
	h, ok = decodeSegmentHeader(p)
	return size, h, ok, p, nil
}

// SegmentHeaderFromRecord rebuilds the header of a segment, whose own is damaged, from the
// first record. It recovers the epoch and LastBatch, not Before.
func SegmentHeaderFromRecord(f io.ReaderAt) (SegmentHeader, bool) {
	var p [SegmentHeaderSize + RecordHeaderSize]byte
	if _, err := f.ReadAt(p[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return SegmentHeader{}, false
	}
	for _, h := range []SegmentHeader{{}, {OldFormat: true}} {
		q := p[h.Size():]
		h.Epoch = binary.LittleEndian.Uint64(q[8:])
		if rec, ok := h.decodeRecord(q, h.Size()); ok {
			if !h.OldFormat {
				h.LastBatch = rec.BatchNumber - 1
			}
			return h, true
		}
	}
	return SegmentHeader{}, false
}

// Version is the version of the store's format that this program writes.
const Version = 4

const oldVersion = 2 // what VersionOf reports for 1 too

// VersionOf returns the version of the store's format in which the segment f was written,
// and 0 when its header does not tell. newer reports a version that this program does not
// know.
func VersionOf(f io.ReaderAt) (version int, newer bool, err error) {
	_, h, ok, head, err := ReadSegmentHeader(f)
	switch {
	case err != nil:
		return 0, false, err
	case ok && h.OldFormat:
		return oldVersion, false, nil
	case ok && h.Format3:
		return 3, false, nil
	case ok:
		return Version, false, nil
	}
	newer = bytes.HasPrefix(head, []byte("allium segment ")) && !bytes.HasPrefix(head, []byte(segmentMagic)) &&
		!bytes.HasPrefix(head, []byte(segmentMagic3)) && !bytes.HasPrefix(head, []byte(oldSegmentMagic))
	return 0, newer, nil
}
