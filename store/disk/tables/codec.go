package tables

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"allium/protocols/b3"
	"allium/store/meta"
)

// Keys of the index start with one of these bytes; FORMAT.md lists them.
const (
	keyMeta          = 'm' // name
	keyObject        = 'o' // root[32]
	keyPin           = 'p' // root[32] label
	keyPart          = 'd' // a download before format 3: root[32]; a page of its bitmap: root[32] page u64, big-endian
	keyUpload        = 'q' // id[16]; before format 3
	keyUse           = 'u' // root[32]
	keyBucketRemoval = 'x' // root[32]: removed, and to be deleted from the bucket
	keyFileRemoval   = 'y' // root[32]: removed, and its files are to be deleted
	keyShipped       = 's' // segment u64, big-endian: how much of it is in the bucket
)

var (
	keyWatermark   = []byte{keyMeta, 'w'} // segment u64, offset u64, batch u64: the index has the log up to there
	keySegments    = []byte{keyMeta, 'g'} // the segments of the log, as of the watermark
	keyOrphans     = []byte{keyMeta, 'o'} // exists while files in obj/ that no record names are unchecked
	keyClean       = []byte{keyMeta, 'd'} // exists when the store was closed in order: totals
	keyLogComplete = []byte{keyMeta, 'f'} // exists when the log has a record for every large object and pin
	keyScrub       = []byte{keyMeta, 's'} // progress of the scrub
)

// The value of an object or a pin starts with a byte for its form and a byte of flags.
const (
	formOldRecord = 1 // formRecord without added, of format 1
	formOldFile   = 2 // formFile without added, of format 1
	formRecord    = 3 // in a segment: added, size, segment, offset of the body
	formFile      = 4 // in obj/: added, size, segment of its record
	formOldPin    = 1 // formPin without segment, of format 1: created i64
	formPin       = 2 // created i64, segment of its record

	flagCorrupt   = 1 // of an object
	flagRecursive = 1 // of a pin
	flagTarget    = 2 // of a pin: its target follows: copies, data, parity, number
	flagReleased  = 4 // of a pin
)

func rootKey(kind byte, root b3.Root) []byte {
	return append(append(make([]byte, 0, 1+b3.Size), kind), root[:]...)
}

func pinKey(root b3.Root, label string) []byte {
	k := make([]byte, 0, 1+b3.Size+len(label))
	return append(append(append(k, keyPin), root[:]...), label...)
}

// maxEntrySize is the length of the longest value of an object in bytes.
const maxEntrySize = 2 + 4*10

// appendEntry appends the value of e's key to p.
func appendEntry(p []byte, e meta.Entry) []byte {
	form, flags := byte(formRecord), byte(0)
	if !meta.Small(e.Size) {
		form = formFile
	}
	if e.Corrupt {
		flags = flagCorrupt
	}
	p = binary.AppendUvarint(append(p, form, flags), uint64(e.Added))
	p = binary.AppendUvarint(p, uint64(e.Size))
	p = binary.AppendUvarint(p, e.Seg)
	if form == formFile {
		return p
	}
	return binary.AppendUvarint(p, uint64(e.Off))
}

// decodeRootKey returns the root of a key that has nothing else.
func decodeRootKey(key []byte) (b3.Root, error) {
	if len(key) != 1+b3.Size {
		return b3.Root{}, fmt.Errorf("the index key % x %w", meta.Excerpt(key), ErrMalformed)
	}
	return b3.Root(key[1:]), nil
}

// decodeObject decodes an object's key and value.
func decodeObject(key, value []byte) (meta.Entry, error) {
	root, err := decodeRootKey(key)
	if err != nil {
		return meta.Entry{}, err
	}
	return decodeEntry(root, value)
}

// decodeEntry reverses appendEntry. It accepts the values of format 1 too.
func decodeEntry(root b3.Root, p []byte) (meta.Entry, error) {
	bad := func() (meta.Entry, error) {
		return meta.Entry{}, fmt.Errorf("the index entry of %s %w: % x", root, ErrMalformed, meta.Excerpt(p))
	}
	if len(p) < 2 || p[1]&^flagCorrupt != 0 {
		return bad()
	}
	form, rest := p[0], p[2:]
	e := meta.Entry{Root: root, Corrupt: p[1] == flagCorrupt}
	var added, size, off uint64
	ok := true
	if form == formRecord || form == formFile {
		ok = meta.Uvarint(&rest, &added) && added <= math.MaxUint32
	}
	ok = ok && meta.Uvarint(&rest, &size)
	switch form {
	case formFile:
		ok = ok && size > b3.GroupSize && size <= b3.MaxSize && meta.Uvarint(&rest, &e.Seg)
	case formOldFile:
		ok = ok && size > b3.GroupSize && size <= b3.MaxSize
	case formRecord, formOldRecord:
		ok = ok && size <= b3.GroupSize && meta.Uvarint(&rest, &e.Seg)
		ok = ok && meta.Uvarint(&rest, &off) && off <= meta.MaxSegmentBytes
	default:
		ok = false
	}
	if !ok || len(rest) != 0 {
		return bad()
	}
	e.Added, e.Size, e.Off = meta.Second(added), int64(size), int64(off)
	return e, nil
}

// decodeUse decodes the last use of an object, a uvarint.
func decodeUse(_, p []byte) (meta.Second, error) {
	rest := p
	var v uint64
	if !meta.Uvarint(&rest, &v) || len(rest) != 0 || v > math.MaxUint32 {
		return 0, fmt.Errorf("the index entry of a use %w: % x", ErrMalformed, meta.Excerpt(p))
	}
	return meta.Second(v), nil
}

// decodeNumber decodes the number of a removal.
func decodeNumber(_, p []byte) (uint64, error) {
	if len(p) != 8 {
		return 0, fmt.Errorf("the index entry of a removal %w: % x", ErrMalformed, meta.Excerpt(p))
	}
	return binary.LittleEndian.Uint64(p), nil
}

// pinRecord is a pin and the segment of its record, 0 when no record is known.
type pinRecord struct {
	meta.Pin
	seg uint64
}

// pinValue returns the value of p's key; seg is the segment of its record.
func pinValue(p meta.Pin, seg uint64) []byte {
	var flags byte
	if p.Recursive {
		flags |= flagRecursive
	}
	if p.Released {
		flags |= flagReleased
	}
	t := p.Target
	if t.Seq > 0 {
		flags |= flagTarget
	}
	b := binary.LittleEndian.AppendUint64([]byte{formPin, flags}, uint64(p.Created.Unix()))
	b = binary.AppendUvarint(b, seg)
	if t.Seq > 0 {
		for _, v := range []uint64{uint64(t.Copies), uint64(t.Data), uint64(t.Parity), t.Seq} {
			b = binary.AppendUvarint(b, v)
		}
	}
	return b
}

// decodeTarget decodes the target of a pin from the beginning of p and advances p.
func decodeTarget(p *[]byte) (t meta.Target, ok bool) {
	var copies, data, parity uint64
	ok = meta.Uvarint(p, &copies) && meta.Uvarint(p, &data) && meta.Uvarint(p, &parity) && meta.Uvarint(p, &t.Seq)
	ok = ok && copies <= meta.MaxCopies && data <= meta.MaxShards && parity <= meta.MaxShards && t.Seq > 0
	t.Copies, t.Data, t.Parity = int(copies), int(data), int(parity)
	return t, ok && t.Check() == nil
}

// decodePin decodes a pin's key and value. It accepts the values of format 1 too.
func decodePin(key, value []byte) (p pinRecord, err error) {
	ok := len(key) >= 1+b3.Size && key[0] == keyPin && len(value) >= 10 &&
		value[1]&^(flagRecursive|flagTarget|flagReleased) == 0
	if ok {
		rest := value[10:]
		ok = value[0] == formOldPin || value[0] == formPin && meta.Uvarint(&rest, &p.seg)
		if ok && value[1]&flagTarget != 0 {
			p.Target, ok = decodeTarget(&rest)
		}
		released := value[1]&flagReleased != 0
		ok = ok && len(rest) == 0 && (!released || value[1]&flagRecursive == 0 && p.Target.Removed())
	}
	if !ok {
		return pinRecord{}, fmt.Errorf("the index entry of a pin %w: % x = % x",
			ErrMalformed, meta.Excerpt(key), meta.Excerpt(value))
	}
	p.Root, p.Label = b3.Root(key[1:1+b3.Size]), string(key[1+b3.Size:])
	p.Recursive, p.Released = value[1]&flagRecursive != 0, value[1]&flagReleased != 0
	p.Created = time.Unix(int64(binary.LittleEndian.Uint64(value[2:])), 0).UTC()
	if err := meta.CheckLabel(p.Label); err != nil {
		return pinRecord{}, err
	}
	return p, nil
}

// Position is a place in the log: a segment and an offset in it.
type Position struct {
	Seg uint64
	Off int64
}
