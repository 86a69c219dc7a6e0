package archive

import (
	"archive/zip"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"unicode/utf8"

	"allium/internal/limits"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// The bounds of a zip. archive/zip holds the list of the entries in RAM, some 300 bytes for each beside its
// name.
const (
	MaxZipEntries = 100_000
	maxZipList    = 16 << 20 // bytes of the list of the entries
	ratioFloor    = 64 << 10 // a zip may always decompress to so many bytes
	maxZipLink    = 4 << 10  // bytes of a link's target
)

// Zip reads a zip. Its methods read from the file that NewZip got.
type Zip struct {
	files    []*zip.File
	size     int64         // of the zip
	unpacked int64         // bytes that its entries decompress to
	body     io.ReadCloser // of the current entry; nil: none
}

// NewZip returns a reader of the zip of size bytes in f. It refuses what is no whole zip and entries that
// share bytes with bad_request, more than MaxZipEntries with body_cap, and a zip that decompresses to more
// than ratio times its entries and 64 KiB with decompress_cap. The caller closes it.
func NewZip(f io.ReaderAt, size, ratio int64) (*Zip, error) {
	if err := checkList(f, size); err != nil {
		return nil, err
	}
	list := &listReader{f: f, left: maxZipList + openBytes}
	r, err := zip.NewReader(list, size)
	if err != nil {
		return nil, zipError(err)
	}
	list.left = math.MaxInt64
	if n := len(r.File); n > MaxZipEntries { // the end may say less than the list has
		return nil, errLongList(uint64(n))
	}
	unpacked, err := checkSizes(r.File, ratio)
	if err != nil {
		return nil, err
	}
	if err := checkOverlaps(r.File, size); err != nil {
		return nil, err
	}
	return &Zip{files: r.File, size: size, unpacked: unpacked}, nil
}

// Close closes the current entry.
func (z *Zip) Close() {
	if z.body != nil {
		_ = z.body.Close() // it was only read
		z.body = nil
	}
}

// Unpacked returns the bytes that all entries decompress to, at most. It is known before the first entry.
func (z *Zip) Unpacked() int64 { return z.unpacked }

// Consumed implements Reader. The zip was read before its first entry.
func (z *Zip) Consumed() int64 { return z.size }

// Next implements Reader.
func (z *Zip) Next() (Entry, error) {
	z.Close()
	if len(z.files) == 0 {
		return Entry{}, io.EOF
	}
	f := z.files[0]
	z.files = z.files[1:]
	mode := f.Mode()
	e := Entry{Name: f.Name}
	switch {
	case f.Flags&1 != 0:
		e.Problem = "it is encrypted"
	case f.Method != zip.Store && f.Method != zip.Deflate:
		e.Problem = fmt.Sprintf("it is compressed by method %d; make the zip with deflate", f.Method)
	case f.NonUTF8 && !utf8.ValidString(f.Name):
		e.Problem = "its name is not UTF-8; make the zip with UTF-8 names"
	case mode.IsDir():
		e.Kind = manifest.Directory
	case mode&fs.ModeSymlink != 0:
		e.Kind = manifest.Link
		target, err := linkTarget(f)
		if err != nil {
			return Entry{}, err
		}
		if e.Target = target; target == "" {
			e.Problem = fmt.Sprintf("it is a link to nothing, or to more than %d bytes", maxZipLink)
		}
	case !mode.IsRegular():
		e.Problem = "it is a device or pipe; only files, directories and symbolic links can be added"
	default:
		body, err := f.Open()
		if err != nil {
			return Entry{}, zipError(err)
		}
		z.body = body
		e.Kind, e.Executable = manifest.File, mode&0o111 != 0
		e.Body, e.Size = status.Reader(body, zipError), int64(f.UncompressedSize64)
	}
	return e, nil
}

// linkTarget returns the target of a link, or nothing if it is too long.
func linkTarget(f *zip.File) (string, error) {
	if f.UncompressedSize64 > maxZipLink {
		return "", nil
	}
	r, err := f.Open()
	if err != nil {
		return "", zipError(err)
	}
	defer r.Close()
	target, err := io.ReadAll(io.LimitReader(status.Reader(r, zipError), maxZipLink))
	return string(target), err
}

// zipError returns err as bad_request. An outcome that err already has stays.
func zipError(err error) error {
	if o := status.Of(err); o != status.Internal {
		return status.Errorf(o, "zip: %w", err)
	}
	return status.Errorf(status.BadRequest, "cannot read the zip: %w. Check that it is whole (unzip -t)", err)
}

// checkSizes returns how many bytes the list of a zip promises, and refuses more than ratio allows.
// archive/zip gives no more of an entry than its size in the list.
func checkSizes(files []*zip.File, ratio int64) (int64, error) {
	var packed, unpacked uint64
	for _, f := range files {
		const most = 1 << 62
		packed = min(packed+min(f.CompressedSize64, most), most)
		unpacked = min(unpacked+min(f.UncompressedSize64, most), most)
	}
	// packed may be near the bound, so the ratio is compared by division.
	if unpacked > ratioFloor && unpacked/uint64(ratio) > packed {
		return 0, status.Errorf(status.DecompressCap,
			"cannot unpack the zip: it becomes more than %d times as large. Send a tar, or pack less into it", ratio)
	}
	return int64(unpacked), nil
}

// checkOverlaps refuses a zip in which two entries share bytes, or an entry has bytes outside of the zip. A
// few such bytes could stand for many files.
func checkOverlaps(files []*zip.File, size int64) error {
	type span struct{ from, to int64 }
	spans := make([]span, 0, len(files))
	for _, f := range files {
		from, err := f.DataOffset()
		if err != nil {
			return zipError(err)
		}
		n := f.CompressedSize64
		if from < 0 || from > size || n > uint64(size-from) {
			return status.Errorf(status.BadRequest,
				"cannot read the zip: its list names bytes that it does not have. Check that it is whole (unzip -t)")
		}
		if n > 0 {
			spans = append(spans, span{from, from + int64(n)})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(spans); i++ {
		if spans[i].from < spans[i-1].to {
			return status.Errorf(status.BadRequest,
				"cannot read the zip: entries overlap, so that the same bytes are several files. Make it again")
		}
	}
	return nil
}

// openBytes is the maximum number of bytes that archive/zip reads to find the list.
const openBytes = 1<<10 + 65<<10 + 16<<10

// listReader reads a zip while archive/zip reads the list of its entries, which goes on as long as it finds
// entries, whatever the end says.
type listReader struct {
	f    io.ReaderAt
	left int64
}

func (l *listReader) ReadAt(p []byte, off int64) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, errLongList(0)
	}
	return l.f.ReadAt(p, off)
}

// errLongList returns the error for a zip with too many entries; n is their number, 0 when it is not known.
func errLongList(n uint64) error {
	has := "too many entries"
	if n > 0 {
		has = fmt.Sprintf("%d entries", n)
	}
	return status.Errorf(status.BodyCap,
		"cannot unpack the zip: it has %s. The limits are %d entries and a list of %s. "+
			"Send a tar, which has no such limit, or several zips",
		has, MaxZipEntries, limits.Bytes(maxZipList).Human())
}

// The end of a zip: a record of 22 bytes and a comment, and with Zip64 a record of 56 bytes that a locator
// of 20 bytes in front of the end names (APPNOTE.TXT 4.3.14–4.3.16).
const (
	endSize     = 22
	locatorSize = 20
	end64Size   = 56
	maxComment  = 1<<16 - 1
	endMark     = 0x06054b50
	locatorMark = 0x07064b50
	end64Mark   = 0x06064b50
)

// checkList refuses a zip without an end, or whose end names more entries than MaxZipEntries: archive/zip
// allocates a list of that length before it reads it.
func checkList(f io.ReaderAt, size int64) error {
	tail := make([]byte, min(size, endSize+maxComment))
	if _, err := f.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return zipError(err)
	}
	at := len(tail) - endSize
	for ; at >= 0; at-- {
		comment := int(binary.LittleEndian.Uint16(tail[at+20:]))
		if binary.LittleEndian.Uint32(tail[at:]) == endMark && at+endSize+comment <= len(tail) {
			break
		}
	}
	if at < 0 {
		return status.Errorf(status.BadRequest, "cannot read the zip: it has no end. Check that it is whole (unzip -t)")
	}
	entries := uint64(binary.LittleEndian.Uint16(tail[at+10:]))
	big, err := zip64Entries(f, size, size-int64(len(tail))+int64(at)-locatorSize)
	if err != nil {
		return err
	}
	if entries = max(entries, big); entries > MaxZipEntries {
		return errLongList(entries)
	}
	return nil
}

// zip64Entries returns the number of entries in the Zip64 end record that the locator at at names, 0 when
// there is none.
func zip64Entries(f io.ReaderAt, size, at int64) (uint64, error) {
	if at < 0 {
		return 0, nil
	}
	locator := make([]byte, locatorSize)
	if _, err := f.ReadAt(locator, at); err != nil {
		return 0, zipError(err)
	}
	if binary.LittleEndian.Uint32(locator) != locatorMark {
		return 0, nil
	}
	record := make([]byte, end64Size)
	where := binary.LittleEndian.Uint64(locator[8:])
	if where > uint64(size) {
		return 0, zipError(zip.ErrFormat)
	}
	if _, err := f.ReadAt(record, int64(where)); err != nil || binary.LittleEndian.Uint32(record) != end64Mark {
		return 0, zipError(cmp.Or(err, zip.ErrFormat))
	}
	return binary.LittleEndian.Uint64(record[32:]), nil
}
