package addcache

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"math/bits"

	"allium/protocols/b3"
)

// entry is the address of a file in one state.
type entry struct {
	stamp Stamp
	day   uint32 // of its last use, since 1970
	root  b3.Root
}

// entrySize is the size of an entry in bytes: device, inode, size, two times, day of the last use, address, checksum.
const entrySize = 5*8 + 4 + b3.Size + 4

// pageSize is the size of a page in bytes.
const pageSize = 4096

// page has the entries of some files. A slot whose checksum is wrong is free.
type page [pageSize]byte

// slots is the number of entries that a page may have.
const slots = pageSize / entrySize

// slot returns the bytes of an entry.
func (p *page) slot(i int) []byte { return p[i*entrySize : (i+1)*entrySize] }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes e to its slot.
func (e *entry) encode(to []byte) {
	b := to[:0]
	for _, n := range [...]uint64{
		e.stamp.device, e.stamp.inode, uint64(e.stamp.size), uint64(e.stamp.modified), uint64(e.stamp.changed),
	} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(binary.BigEndian.AppendUint32(b, e.day), e.root[:]...)
	binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decode returns the entry of a slot. ok is false for a free slot.
func decode(b []byte) (e entry, ok bool) {
	const sum = entrySize - 4
	if binary.BigEndian.Uint32(b[sum:]) != crc32.Checksum(b[:sum], castagnoli) {
		return e, false
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	e.stamp = Stamp{
		device: n(0), inode: n(1), size: int64(n(2)), modified: int64(n(3)), changed: int64(n(4)),
	}
	e.day, e.root = binary.BigEndian.Uint32(b[5*8:]), b3.Root(b[5*8+4:sum])
	return e, true
}

// place holds the numbers of the two pages of a file, from 1 on.
type place struct{ first, second uint64 }

// neighbours is the number of inodes in a row that have the same two pages: files of one directory often are
// neighbours.
const neighbours = 8

// placeOf returns the place of a file in a cache of so many pages.
func placeOf(s Stamp, pages uint64) place {
	mix := func(x uint64) uint64 { // the finalizer of SplitMix64
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		return x ^ x>>31
	}
	h := mix(mix(s.device+0x9e3779b97f4a7c15) + s.inode/neighbours)
	first, _ := bits.Mul64(h, pages)
	second, _ := bits.Mul64(mix(h), pages)
	return place{first + 1, second + 1}
}

// read reads a page. The places of a page that cannot be read are free.
func (p *page) read(f io.ReaderAt, number uint64) {
	n, _ := f.ReadAt(p[:], int64(number)*pageSize) //nolint:gosec // the number of a page
	clear(p[n:])
}

// pageFile is the file of a cache.
type pageFile interface {
	io.ReaderAt
	io.WriterAt
}

// pagePair holds the two pages of a place of a file.
type pagePair struct {
	file   pageFile
	place  place // zero: none yet
	pages  [2]page
	loaded [2]bool
	dirty  [2]bool
}

// load makes p hold the pages of a place. It writes those that it held, and reads the new ones when they are needed.
func (p *pagePair) load(at place) {
	if p.place != at {
		p.store()
		p.place, p.loaded = at, [2]bool{}
	}
}

// number returns the number of a page in the file.
func (p *pagePair) number(i int) uint64 { return [...]uint64{p.place.first, p.place.second}[i] - 1 }

// page returns a page.
func (p *pagePair) page(i int) *page {
	if !p.loaded[i] {
		p.loaded[i] = true
		p.pages[i].read(p.file, p.number(i))
	}
	return &p.pages[i]
}

// find returns the entry of a file, in whatever state.
func (p *pagePair) find(s Stamp) (e entry, ok bool) {
	for i := range p.pages {
		for slot := range slots {
			if e, ok := decode(p.page(i).slot(slot)); ok && e.stamp.compare(s) == 0 {
				return e, true
			}
		}
	}
	return e, false
}

// slotIn is a slot of one of the pages.
type slotIn struct{ page, slot int }

// put stores e in place of the file's older entry, in the page with more free slots, or, if replace is set, in place
// of an entry with the oldest use. Otherwise it returns false if both pages are full.
func (p *pagePair) put(e entry, replace bool) bool {
	var free [2]int // free slots of each page
	var last [2]int // the last of them
	oldest, day := slotIn{}, uint32(math.MaxUint32)
	for i := range p.pages {
		if i == 1 && p.place.second == p.place.first {
			break
		}
		for slot := range slots {
			at := slotIn{i, slot}
			old, ok := decode(p.page(i).slot(slot))
			switch {
			case !ok:
				free[i]++
				last[i] = slot
			case old.stamp.compare(e.stamp) == 0:
				p.write(at, e)
				return true
			case old.day < day:
				oldest, day = at, old.day
			}
		}
	}
	switch {
	case free[1] > free[0]:
		oldest = slotIn{1, last[1]}
	case free[0] > 0:
		oldest = slotIn{0, last[0]}
	case !replace:
		return false
	}
	p.write(oldest, e)
	return true
}

// write stores e in a slot.
func (p *pagePair) write(at slotIn, e entry) {
	e.encode(p.page(at.page).slot(at.slot))
	p.dirty[at.page] = true
}

// store writes the changed pages. An error loses entries.
func (p *pagePair) store() {
	for i := range p.pages {
		if p.dirty[i] {
			_, _ = p.file.WriteAt(p.pages[i][:], int64(p.number(i))*pageSize) //nolint:gosec // the number of a page
			p.dirty[i] = false
		}
	}
}
