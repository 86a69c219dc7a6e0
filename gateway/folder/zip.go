package folder

import (
	"encoding/binary"
	"strings"

	"hash/crc32"

	"allium/protocols/manifest"
)

// The signatures and numbers of a zip (APPNOTE 6.3.10).
const (
	sigLocal      = 0x04034b50
	sigDescriptor = 0x08074b50
	sigCentral    = 0x02014b50
	sigEnd64      = 0x06064b50
	sigLocator64  = 0x07064b50
	sigEnd        = 0x06054b50

	zipVersion   = 20 // directories
	zip64Version = 45
	madeByUnix   = 3 << 8

	flagDescriptor = 1 << 3 // the checksum follows the bytes
	flagUTF8       = 1 << 11
	extra64        = 1
	firstDate      = 0x21 // 1 January 1980, the earliest date

	max32 = 1<<32 - 1
	max16 = 1<<16 - 1

	unixDir, unixFile, unixLink = 0o040000, 0o100000, 0o120000
)

// writeZip writes the tree as a zip. Files are stored, with their sizes before and their checksums behind their bytes.
// It returns where the list at the end begins.
func writeZip(t *tree, w *window, list int64) (begins int64, err error) {
	z := &zipWriter{t: t, w: w, list: list}
	if err := t.walk(z.entry); err != nil {
		return 0, err
	}
	z.begins = w.at
	at := int64(0)
	z.next = 0
	err = t.walk(func(path string, e *manifest.Entry) error {
		r := zipRecord{path: path, e: e, at: at, crc: z.checksum(e)}
		at += int64(len(r.local())) + r.size() + int64(len(r.descriptor()))
		return z.put(r.central())
	})
	if err != nil {
		return 0, err
	}
	return z.begins, w.text(zipEnd(t.entries, z.begins, w.at-z.begins))
}

// zipWriter writes a zip.
type zipWriter struct {
	t      *tree
	w      *window
	list   int64    // where the list begins; 0: not known, and nothing is passed on
	begins int64    // as it was found
	sums   []uint32 // of the files so far
	next   int      // the file in sums that is listed next
}

// entry writes one entry.
func (z *zipWriter) entry(path string, e *manifest.Entry) error {
	if err := checkZip(path, e); err != nil {
		return err
	}
	r := zipRecord{path: path, e: e}
	if err := z.put(r.local()); err != nil {
		return err
	}
	switch e.Kind {
	case manifest.Link:
		return z.put([]byte(e.Target))
	case manifest.Directory:
		return nil
	}
	descriptor := int64(len(r.descriptor()))
	end := z.w.at + e.Size
	summed := z.w.End > z.list || z.w.Start < end+descriptor && z.w.End > end
	crc, err := z.w.file(z.t, path, e, summed)
	if err != nil {
		return err
	}
	z.sums = append(z.sums, crc)
	r.crc = crc
	return z.put(r.descriptor())
}

// put writes bytes that are no file's, and returns errDone when nothing more is wanted.
func (z *zipWriter) put(p []byte) error {
	if err := z.w.text(p); err != nil {
		return err
	}
	return z.w.more()
}

// checksum returns the checksum of the next entry of the list.
func (z *zipWriter) checksum(e *manifest.Entry) uint32 {
	switch e.Kind {
	case manifest.Link:
		return crc32.ChecksumIEEE([]byte(e.Target))
	case manifest.Directory:
		return 0
	}
	z.next++
	return z.sums[z.next-1]
}

// checkZip refuses names that programs for other systems take for a path elsewhere.
func checkZip(path string, e *manifest.Entry) error {
	switch {
	case strings.Contains(path, `\`):
		return cannotHold(path, "a zip", "a backslash is a separator there. Ask for a tar")
	case len(path) > 1 && path[1] == ':':
		return cannotHold(path, "a zip", "it begins as a drive does. Ask for a tar")
	case e.Kind == manifest.Link:
		return checkLink(path, e)
	}
	return nil
}

// zipRecord describes an entry of a zip.
type zipRecord struct {
	path string
	e    *manifest.Entry
	at   int64 // where its local header begins
	crc  uint32
}

// name returns the name in the zip.
func (r *zipRecord) name() string {
	if r.e.Kind == manifest.Directory {
		return r.path + "/"
	}
	return r.path
}

// size returns the number of bytes that follow the local header.
func (r *zipRecord) size() int64 {
	switch r.e.Kind {
	case manifest.Directory:
		return 0
	case manifest.Link:
		return int64(len(r.e.Target))
	}
	return r.e.Size
}

// common appends what the local header and the list have in common: from the version to the lengths of name and extra.
func (r *zipRecord) common(p []byte, crc uint32, extra int) []byte {
	version, flags, size := zipVersion, flagUTF8, r.size()
	if size >= max32 || r.at >= max32 {
		version = zip64Version
	}
	if r.e.Kind == manifest.File {
		flags |= flagDescriptor
	}
	le := binary.LittleEndian
	p = le.AppendUint16(p, uint16(version))
	p = le.AppendUint16(p, uint16(flags))
	p = le.AppendUint16(p, 0) // stored
	p = le.AppendUint32(p, firstDate<<16)
	p = le.AppendUint32(p, crc)
	p = le.AppendUint32(p, uint32(min(size, max32)))
	p = le.AppendUint32(p, uint32(min(size, max32)))
	p = le.AppendUint16(p, uint16(len(r.name())))
	return le.AppendUint16(p, uint16(extra))
}

// local returns the local header.
func (r *zipRecord) local() []byte {
	le := binary.LittleEndian
	var extra []byte
	if size := r.size(); size >= max32 {
		extra = le.AppendUint16(le.AppendUint16(nil, extra64), 16)
		extra = le.AppendUint64(le.AppendUint64(extra, uint64(size)), uint64(size))
	}
	crc := uint32(0)
	if r.e.Kind == manifest.Link {
		crc = crc32.ChecksumIEEE([]byte(r.e.Target))
	}
	here := *r
	here.at = 0
	p := here.common(le.AppendUint32(make([]byte, 0, 64+len(r.path)), sigLocal), crc, len(extra))
	return append(append(p, r.name()...), extra...)
}

// descriptor returns what follows the bytes of a file.
func (r *zipRecord) descriptor() []byte {
	if r.e.Kind != manifest.File {
		return nil
	}
	le := binary.LittleEndian
	p := le.AppendUint32(le.AppendUint32(make([]byte, 0, 24), sigDescriptor), r.crc)
	if size := r.e.Size; size >= max32 {
		return le.AppendUint64(le.AppendUint64(p, uint64(size)), uint64(size))
	}
	return le.AppendUint32(le.AppendUint32(p, uint32(r.e.Size)), uint32(r.e.Size))
}

// central returns the entry in the list at the end.
func (r *zipRecord) central() []byte {
	le := binary.LittleEndian
	var extra []byte
	if size := r.size(); size >= max32 {
		extra = le.AppendUint64(le.AppendUint64(nil, uint64(size)), uint64(size))
	}
	if r.at >= max32 {
		extra = le.AppendUint64(extra, uint64(r.at))
	}
	if n := len(extra); n > 0 {
		extra = append(le.AppendUint16(le.AppendUint16(nil, extra64), uint16(n)), extra...)
	}
	p := le.AppendUint32(make([]byte, 0, 96+len(r.path)), sigCentral)
	p = le.AppendUint16(p, madeByUnix|zip64Version)
	p = r.common(p, r.crc, len(extra))
	p = append(p, 0, 0, 0, 0, 0, 0) // no comment, first disk, binary
	p = le.AppendUint32(p, r.mode())
	p = le.AppendUint32(p, uint32(min(r.at, max32)))
	return append(append(p, r.name()...), extra...)
}

// mode returns the external attributes: those of Unix, and of DOS for a directory.
func (r *zipRecord) mode() uint32 {
	switch {
	case r.e.Kind == manifest.Directory:
		return (unixDir|0o755)<<16 | 0x10
	case r.e.Kind == manifest.Link:
		return (unixLink | 0o777) << 16
	case r.e.Executable:
		return (unixFile | 0o755) << 16
	}
	return (unixFile | 0o644) << 16
}

// zipEnd returns what follows the list of entries, which begins at list and has size bytes.
func zipEnd(entries, list, size int64) []byte {
	le := binary.LittleEndian
	var p []byte
	if entries >= max16 || list >= max32 || size >= max32 {
		p = le.AppendUint64(le.AppendUint32(p, sigEnd64), 44)
		p = le.AppendUint16(le.AppendUint16(p, madeByUnix|zip64Version), zip64Version)
		p = le.AppendUint64(p, 0) // disks
		p = le.AppendUint64(le.AppendUint64(p, uint64(entries)), uint64(entries))
		p = le.AppendUint64(le.AppendUint64(p, uint64(size)), uint64(list))
		p = le.AppendUint32(le.AppendUint32(p, sigLocator64), 0)
		p = le.AppendUint32(le.AppendUint64(p, uint64(list+size)), 1)
	}
	p = le.AppendUint32(le.AppendUint32(p, sigEnd), 0)
	p = le.AppendUint16(le.AppendUint16(p, uint16(min(entries, max16))), uint16(min(entries, max16)))
	p = le.AppendUint32(le.AppendUint32(p, uint32(min(size, max32))), uint32(min(list, max32)))
	return le.AppendUint16(p, 0)
}
