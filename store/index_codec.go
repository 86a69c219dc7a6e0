package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"allium/protocols/b3"
)

// Keys of the index start with one of these bytes; FORMAT.md lists them.
const (
	keyMeta    = 'm' // name
	keyObject  = 'o' // root[32]
	keyPin     = 'p' // root[32] label
	keyPart    = 'd' // root[32], or root[32] page u64, big-endian: a download and the bitmap of its groups
	keyUpload  = 'q' // id[16]
	keyUse     = 'u' // root[32]
	keyRemoved = 'x' // root[32]: removed, and to be deleted in the bucket
	keyShipped = 's' // segment u64, big-endian: how much of it is in the bucket
)

var (
	keyWatermark = []byte{keyMeta, 'w'} // segment u64, offset u64: the log is in the index up to there
	keyClean     = []byte{keyMeta, 'd'} // there when the store was closed in order: counters
	keyWhole     = []byte{keyMeta, 'f'} // there when the log has a record for every large object and pin
)

// Values of objects and pins start with a byte of form, then one of flags.
const (
	formOldRecord = 1 // formRecord without added, of format 1
	formOldFile   = 2 // formFile without added, of format 1
	formRecord    = 3 // in a segment: added, size, segment, offset of the body
	formFile      = 4 // in obj/: added, size, segment of its record
	formOldPin    = 1 // formPin without segment, of format 1: created i64
	formPin       = 2 // created i64, segment of its record

	flagCorrupt   = 1 // of an object
	flagRecursive = 1 // of a pin
)

func rootKey(kind byte, root b3.Root) []byte {
	return append(append(make([]byte, 0, 1+b3.Size), kind), root[:]...)
}

func pinKey(root b3.Root, label string) []byte {
	k := make([]byte, 0, 1+b3.Size+len(label))
	return append(append(append(k, keyPin), root[:]...), label...)
}

// maxEntrySize is the length of the longest value of an object.
const maxEntrySize = 2 + 4*10

// appendEntry encodes e as the value of its key.
func appendEntry(p []byte, e entry) []byte {
	form, flags := byte(formRecord), byte(0)
	if !small(e.size) {
		form = formFile
	}
	if e.corrupt {
		flags = flagCorrupt
	}
	p = binary.AppendUvarint(append(p, form, flags), uint64(e.added))
	p = binary.AppendUvarint(p, uint64(e.size))
	p = binary.AppendUvarint(p, e.seg)
	if form == formFile {
		return p
	}
	return binary.AppendUvarint(p, uint64(e.off))
}

// decodeEntry is the inverse of appendEntry. It takes the values of format 1 as
// well, and nothing else.
func decodeEntry(root b3.Root, p []byte) (entry, error) {
	bad := fmt.Errorf("the index entry of %s is malformed: % x", root, clip(p))
	if len(p) < 2 || p[1]&^flagCorrupt != 0 {
		return entry{}, bad
	}
	form, rest := p[0], p[2:]
	e := entry{root: root, corrupt: p[1] == flagCorrupt}
	var added, size, off uint64
	ok := true
	if form == formRecord || form == formFile {
		ok = uvarint(&rest, &added) && added <= math.MaxUint32
	}
	ok = ok && uvarint(&rest, &size)
	switch form {
	case formFile:
		ok = ok && size > b3.GroupSize && size <= b3.MaxSize && uvarint(&rest, &e.seg)
	case formOldFile:
		ok = ok && size > b3.GroupSize && size <= b3.MaxSize
	case formRecord, formOldRecord:
		ok = ok && size <= b3.GroupSize && uvarint(&rest, &e.seg) && uvarint(&rest, &off) && off <= maxSegmentBytes
	default:
		ok = false
	}
	if !ok || len(rest) != 0 {
		return entry{}, bad
	}
	e.added, e.size, e.off = second(added), int64(size), int64(off)
	return e, nil
}

// decodeUse reads the last use of an object, which is written as a uvarint.
func decodeUse(p []byte) (second, error) {
	rest := p
	var v uint64
	if !uvarint(&rest, &v) || len(rest) != 0 || v > math.MaxUint32 {
		return 0, fmt.Errorf("the index entry of a use is malformed: % x", clip(p))
	}
	return second(v), nil
}

// uvarint takes a number, encoded in the only shortest way, off p.
func uvarint(p *[]byte, v *uint64) bool {
	x, n := binary.Uvarint(*p)
	if n <= 0 || n > 1 && (*p)[n-1] == 0 {
		return false
	}
	*v, *p = x, (*p)[n:]
	return true
}

// clip bounds what an error repeats.
func clip(p []byte) []byte { return p[:min(len(p), 64)] }

// pinValue encodes the value of p's key; seg is where its record is.
func pinValue(p Pin, seg uint64) []byte {
	var flags byte
	if p.Recursive {
		flags = flagRecursive
	}
	b := binary.LittleEndian.AppendUint64([]byte{formPin, flags}, uint64(p.Created.Unix()))
	return binary.AppendUvarint(b, seg)
}

// decodePin reads a pin's key and value; seg is 0 where no record is known. It
// takes the values of format 1 as well.
func decodePin(key, value []byte) (p Pin, seg uint64, err error) {
	ok := len(key) >= 1+b3.Size && key[0] == keyPin && len(value) >= 10 && value[1]&^flagRecursive == 0
	if ok {
		rest := value[10:]
		ok = value[0] == formOldPin || value[0] == formPin && uvarint(&rest, &seg)
		ok = ok && len(rest) == 0
	}
	if !ok {
		return Pin{}, 0, fmt.Errorf("the index entry of a pin is malformed: % x = % x", clip(key), clip(value))
	}
	p = Pin{
		Root: b3.Root(key[1 : 1+b3.Size]), Label: string(key[1+b3.Size:]), Recursive: value[1] == flagRecursive,
		Created: time.Unix(int64(binary.LittleEndian.Uint64(value[2:])), 0).UTC(),
	}
	if err := CheckLabel(p.Label); err != nil {
		return Pin{}, 0, err
	}
	return p, seg, nil
}

// encodeTotals writes what an orderly close leaves for the next open: the
// counters of objects, and number, size, live bytes and tombstones of each
// segment.
func encodeTotals(t *totals, segs map[uint64]segmentUse) []byte {
	var b []byte
	for _, n := range t.counters() {
		b = binary.AppendUvarint(b, uint64(n.Load()))
	}
	for _, num := range slices.Sorted(maps.Keys(segs)) {
		u := segs[num]
		for _, n := range []uint64{num, uint64(u.size), uint64(u.live), uint64(u.tombs)} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return b
}

// decodeTotals is the inverse of encodeTotals.
func decodeTotals(b []byte, t *totals) (segs map[uint64]segmentUse, err error) {
	bad := fmt.Errorf("the counters are malformed: % x", clip(b))
	rest, n := b, uint64(0)
	for _, c := range t.counters() {
		if !uvarint(&rest, &n) {
			return nil, bad
		}
		c.Store(int64(n))
	}
	segs = map[uint64]segmentUse{}
	for len(rest) > 0 {
		var v [4]uint64
		for i := range v {
			if !uvarint(&rest, &v[i]) || i > 0 && v[i] > maxSegmentBytes {
				return nil, bad
			}
		}
		segs[v[0]] = segmentUse{size: int64(v[1]), live: int64(v[2]), tombs: int64(v[3])}
	}
	return segs, nil
}

// position is a place in the log of segments.
type position struct {
	seg uint64
	off int64
}

func encodePosition(p position) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), p.seg)
	return binary.LittleEndian.AppendUint64(b, uint64(p.off))
}

func decodePosition(b []byte) (position, error) {
	if len(b) != 16 || binary.LittleEndian.Uint64(b[8:]) > maxSegmentBytes {
		return position{}, fmt.Errorf("the watermark is malformed: % x", clip(b))
	}
	return position{seg: binary.LittleEndian.Uint64(b), off: int64(binary.LittleEndian.Uint64(b[8:]))}, nil
}
