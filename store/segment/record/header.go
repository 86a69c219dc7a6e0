package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/store/index"
	"allium/store/meta"
)

// FileSuffix ends the name of a segment.
const FileSuffix = ".seg"

// FileName returns the name of a segment.
func FileName(num uint64) string { return fmt.Sprintf("%016x"+FileSuffix, num) }

// ParseFileName is the inverse of FileName.
func ParseFileName(name string) (uint64, bool) {
	num, err := strconv.ParseUint(name[:max(0, len(name)-len(FileSuffix))], 16, 64)
	return num, err == nil && num > 0 && FileName(num) == name
}

// Header is what a segment says of itself.
type Header struct {
	Old    bool // of format 1 or 2: records have no batch, and nothing is said of the segment before
	Epoch  uint64
	Before index.Position // where the segment before this one ends; 0 for none
	Batch  uint64         // number of the last batch before this segment
}

// Size is the length of the header, behind which the first record is.
func (h Header) Size() int64 {
	if h.Old {
		return oldHeaderSize
	}
	return HeaderSize
}

// recordSize is the length of a record's header.
func (h Header) recordSize() int {
	if h.Old {
		return oldRecordHeaderSize
	}
	return HeadSize
}

// put writes the header of a segment into p.
func (h Header) put(p []byte) {
	clear(p[:HeaderSize])
	copy(p, fileMagic)
	binary.LittleEndian.PutUint64(p[16:], h.Epoch)
	binary.LittleEndian.PutUint64(p[24:], h.Before.Seg)
	binary.LittleEndian.PutUint64(p[32:], uint64(h.Before.Off))
	binary.LittleEndian.PutUint64(p[40:], h.Batch)
	binary.LittleEndian.PutUint32(p[60:], crc32.Checksum(p[:60], meta.Castagnoli))
}

// parseHeader reads the header of a segment; ok is false when it is
// none.
func parseHeader(p []byte) (h Header, ok bool) {
	switch {
	case len(p) >= HeaderSize && string(p[:16]) == fileMagic && meta.Checksummed(p[:HeaderSize]):
		h = Header{
			Epoch: binary.LittleEndian.Uint64(p[16:]), Batch: binary.LittleEndian.Uint64(p[40:]),
			Before: index.Position{Seg: binary.LittleEndian.Uint64(p[24:]), Off: int64(binary.LittleEndian.Uint64(p[32:]))},
		}
		return h, h.Before.Off >= 0 && h.Before.Off <= meta.MaxSegmentBytes
	case len(p) >= oldHeaderSize && string(p[:16]) == oldFileMagic && meta.Checksummed(p[:oldHeaderSize]):
		return Header{Old: true, Epoch: binary.LittleEndian.Uint64(p[16:])}, true
	}
	return Header{}, false
}

// WriteHeader writes the header of the segment f.
func WriteHeader(f vfs.File, h Header) error {
	var header [HeaderSize]byte
	h.put(header[:])
	_, err := f.WriteAt(header[:], 0)
	return err
}

// ReadHeader returns a segment's size and header; ok is false when it has
// none, and head is what is there instead.
func ReadHeader(f io.ReaderAt) (size int64, h Header, ok bool, head []byte, err error) {
	if st, is := f.(interface{ Stat() (vfs.FileInfo, error) }); is {
		info, err := st.Stat()
		if err != nil {
			return 0, h, false, nil, meta.ReadError(err)
		}
		size = info.Size()
	}
	p := make([]byte, HeaderSize)
	if _, err := f.ReadAt(p, 0); err != nil && !errors.Is(err, io.EOF) {
		return 0, h, false, nil, meta.ReadError(err)
	}
	h, ok = parseHeader(p)
	return size, h, ok, p, nil
}

// HeaderFromRecord takes the epoch from the first record of a segment.
func HeaderFromRecord(f io.ReaderAt) (Header, bool) {
	var p [HeaderSize + HeadSize]byte
	if _, err := f.ReadAt(p[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return Header{}, false
	}
	for _, h := range []Header{{}, {Old: true}} {
		q := p[h.Size():]
		h.Epoch = binary.LittleEndian.Uint64(q[8:])
		if rec, ok := h.record(q, h.Size()); ok {
			if !h.Old {
				h.Batch = rec.Number - 1
			}
			return h, true
		}
	}
	return Header{}, false
}

// Version is the version of the store's format that is written.
const Version = 3

const versionOld = 2 // or 1

// VersionOf returns the version of the store's format that the segment f was
// written in: 0 when its header does not say. newer reports a version that this
// program does not know.
func VersionOf(f io.ReaderAt) (version int, newer bool, err error) {
	_, h, ok, head, err := ReadHeader(f)
	switch {
	case err != nil:
		return 0, false, err
	case ok && h.Old:
		return versionOld, false, nil
	case ok:
		return Version, false, nil
	}
	newer = bytes.HasPrefix(head, []byte("allium segment ")) && !bytes.HasPrefix(head, []byte(fileMagic)) && !bytes.HasPrefix(head, []byte(oldFileMagic))
	return 0, newer, nil
}
