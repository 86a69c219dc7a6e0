package pmtiles

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"sort"

	"github.com/klauspost/compress/gzip"

	"allium/gateway/pack/tile"
	"allium/protocols/status"
)

// entry says where one tile, a run of equal tiles, or a leaf directory lies.
type entry struct {
	id     uint64 // of the first tile
	offset uint64 // in the section of tiles or leaf directories
	length uint32
	run    uint32 // tiles with consecutive IDs that have these bytes; 0: a leaf directory
}

// entryBytes is the size of an entry in memory.
const entryBytes = 24

// end returns the ID after the last tile of e. For a leaf directory it is the least ID that the next
// entry may have.
func (e entry) end() uint64 { return e.id + uint64(max(e.run, 1)) }

// directory is a list of entries, verified as the package comment says. It is never empty and must
// not be changed.
type directory []entry

// find returns the index of the last entry whose ID is at most id, or -1.
func (d directory) find(id uint64) int {
	return sort.Search(len(d), func(i int) bool { return d[i].id > id }) - 1
}

// hasLeaves reports whether an entry is a leaf directory.
func (d directory) hasLeaves() bool {
	for i := range d {
		if d[i].run == 0 {
			return true
		}
	}
	return false
}

// damaged returns an error about a directory.
func damaged(format string, args ...any) error {
	return status.Errorf(status.Corrupt, "a directory of the pack is damaged: "+format, args...)
}

// decode returns the directory that stored holds. r decompresses it if the header says so. It
// allocates for no more entries than stored can hold.
func (h *header) decode(stored []byte, r *gzip.Reader) (directory, error) {
	in := columns{r: bufio.NewReader(bytes.NewReader(stored))}
	most := uint64(len(stored))
	if h.gzipped {
		if err := r.Reset(bytes.NewReader(stored)); err != nil {
			return nil, damaged("%w", err)
		}
		in.r.Reset(r)
		most *= 1032 // the most that deflate makes of a byte
	}
	n := in.next()
	switch {
	case in.err != nil:
		return nil, in.err
	case n == 0:
		return nil, damaged("it is empty")
	case n > most/4: // four numbers each
		return nil, damaged("it claims %d entries in %d bytes", n, len(stored))
	case n > MaxEntries:
		return nil, status.Errorf(status.BodyCap, "a directory of the pack has %d entries: at most %d are supported", n,
			MaxEntries)
	}
	dir := make(directory, n)
	in.fill(dir)
	if in.err == nil {
		in.end()
	}
	if in.err != nil {
		return nil, in.err
	}
	return dir, h.verify(dir)
}

// columns reads the numbers of a directory: all IDs, then all run lengths, lengths and offsets.
type columns struct {
	r   *bufio.Reader
	err error // the first one; next then returns 0
}

// next returns the next number.
func (in *columns) next() uint64 {
	if in.err != nil {
		return 0
	}
	p, err := in.r.Peek(binary.MaxVarintLen64)
	x, n := binary.Uvarint(p)
	switch {
	case n > 0:
		_, _ = in.r.Discard(n) // it was peeked
		return x
	case n < 0 || len(p) == binary.MaxVarintLen64:
		in.err = damaged("a number has more than 64 bits")
	case err == nil || errors.Is(err, io.EOF):
		in.err = damaged("it is cut")
	default:
		in.err = damaged("%w", err)
	}
	return 0
}

// next32 returns the next number, which must fit 32 bits.
func (in *columns) next32() uint32 {
	x := in.next()
	if x > math.MaxUint32 {
		in.err = damaged("a length is %d", x)
	}
	return uint32(x)
}

// fill reads the entries.
func (in *columns) fill(dir directory) {
	id := uint64(0)
	for i := range dir {
		delta := in.next()
		if delta > MaxID-id {
			in.err = damaged("a tile lies beyond zoom %d", tile.MaxZoom)
			return
		}
		id += delta
		dir[i].id = id
	}
	for i := range dir {
		dir[i].run = in.next32()
	}
	for i := range dir {
		dir[i].length = in.next32()
	}
	for i := range dir {
		switch x := in.next(); {
		case x > 0:
			dir[i].offset = x - 1
		case i > 0:
			dir[i].offset = dir[i-1].offset + uint64(dir[i-1].length) // verify refuses one that overflows
		case in.err == nil:
			in.err = damaged("its first entry has no offset")
		}
		if in.err != nil {
			return
		}
	}
}

// end expects nothing more, and so has the checksum of gzip checked.
func (in *columns) end() {
	if _, err := in.r.ReadByte(); err == nil {
		in.err = damaged("bytes follow its entries")
	} else if !errors.Is(err, io.EOF) {
		in.err = damaged("%w", err)
	}
}

// verify checks the entries of a directory against each other and the sections of the file.
func (h *header) verify(dir directory) error {
	next := uint64(0)
	for i, e := range dir {
		if e.id < next && i > 0 {
			return damaged("its entries overlap at tile %d", e.id)
		}
		if e.run > 0 && uint64(e.run)-1 > MaxID-e.id {
			return damaged("a run of %d tiles goes beyond zoom %d", e.run, tile.MaxZoom)
		}
		in := h.tiles
		if e.run == 0 {
			in = h.leaves
		}
		if !in.holds(e.offset, uint64(e.length)) {
			return damaged("an entry has %d bytes at %d, outside of the %d bytes of its section", e.length, e.offset,
				in.length)
		}
		next = e.end()
	}
	return nil
}
