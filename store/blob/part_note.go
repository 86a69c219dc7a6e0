package blob

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/meta"
	"allium/store/partial"
)

// partNote is the note of a download, open or not: where the pages of the
// bitmap are in it.
type partNote struct {
	seq   uint64          // of the newer slot
	at    map[int64]int64 // places of pages
	next  int64           // place of the next new page
	known int64           // places that are durable
}

func newPartNote() *partNote { return &partNote{seq: firstNote, at: map[int64]int64{}} }

// A place has a page of the bitmap: the page's number u64, the CRC of the address and
// that, the CRC of the bits, the bits.
const (
	placeHead = 8 + 4 + 4
	placeSize = placeHead + partial.PageBits/8
)

func placeOffset(i int64) int64 { return noteSlots + i*placeSize }

func pageSum(root b3.Root, number []byte) uint32 {
	return crc32.Update(crc32.Checksum(root[:], meta.Castagnoli), meta.Castagnoli, number)
}

func encodePlace(root b3.Root, page *partial.Page) []byte {
	bits := partial.EncodeBits(&page.Bits)
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, placeSize), uint64(page.Number))
	b = binary.LittleEndian.AppendUint32(b, pageSum(root, b))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(bits, meta.Castagnoli))
	return append(b, bits...)
}

// decodePlace returns the page at a place; ok is false when there is none.
// Without torn its bits are those that were written: others may be taken as
// well, for every group is proved when it is read.
func decodePlace(root b3.Root, size int64, b []byte) (page partial.Page, torn, ok bool) {
	n := binary.LittleEndian.Uint64(b)
	if pageSum(root, b[:8]) != binary.LittleEndian.Uint32(b[8:]) || n > uint64((b3.Groups(size)-1)/partial.PageBits) {
		return page, false, false
	}
	page.Number = int64(n)
	bits := b[placeHead:]
	for i := range page.Bits {
		page.Bits[i] = binary.LittleEndian.Uint64(bits[8*i:])
	}
	return page, crc32.Checksum(bits, meta.Castagnoli) != binary.LittleEndian.Uint32(b[12:]), true
}

// partHead is what the slots of a download's note say: address, size u64, last
// use u32, durable places u64.
const partHead = b3.Size + 8 + 4 + 8

func encodePartHead(rec partial.Record, known int64) []byte {
	b := append(make([]byte, 0, partHead), rec.Root[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(rec.Size))
	b = binary.LittleEndian.AppendUint32(b, uint32(rec.Used))
	return binary.LittleEndian.AppendUint64(b, uint64(known))
}

func decodePartHead(root b3.Root, p []byte) (rec partial.Record, known int64, ok bool) {
	if len(p) != partHead || b3.Root(p[:b3.Size]) != root {
		return rec, 0, false
	}
	p = p[b3.Size:]
	size, places := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[12:])
	if size <= b3.GroupSize || size > b3.MaxSize || places > uint64((b3.Groups(int64(size))-1)/partial.PageBits+1) {
		return rec, 0, false
	}
	return partial.Record{Root: root, Size: int64(size), Used: meta.Second(binary.LittleEndian.Uint32(p[8:]))}, int64(places), true
}

// readPart is what the note of a download says. torn is how many places in it
// are not as they were written, which a crash may have done, lost how many
// slots and places no crash explains: a disk writes a sector whole or not at all.
type readPart struct {
	rec        partial.Record
	note       *partNote
	groups     partial.Bitmap
	pages      []partial.Page
	torn, lost int
}

// readPartNote reads a note; ok is false when neither slot is valid.
func readPartNote(root b3.Root, f vfs.File) (r readPart, ok bool, err error) {
	r.note = newPartNote()
	valid := func(p []byte) bool { _, _, ok := decodePartHead(root, p); return ok }
	seq, p, bad, err := readSlots(notePart, f, valid)
	if err != nil || p == nil {
		return r, false, err
	}
	var known int64
	r.note.seq, r.lost = seq, bad
	r.rec, known, _ = decodePartHead(root, p)
	info, err := f.Stat()
	if err != nil {
		return r, false, meta.ReadError(err)
	}
	places := (info.Size() - noteSlots + placeSize - 1) / placeSize
	r.note.next, r.note.known = max(known, places), max(known, places)
	for i := int64(0); i < places; i += placesOnce {
		if err := r.read(f, i, min(places, i+placesOnce), known); err != nil {
			return r, false, err
		}
	}
	r.lost += int(max(0, known-places))
	groups := b3.Groups(r.rec.Size)
	for _, page := range r.pages {
		r.groups.Put(page.Number, page.Bits, groups)
	}
	r.count()
	return r, true, nil
}

// placesOnce is how many places are read at once.
const placesOnce = 64

func (r *readPart) read(f io.ReaderAt, from, to, known int64) error {
	buf := make([]byte, (to-from)*placeSize)
	if err := readNote(f, buf, placeOffset(from)); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		page, torn, ok := decodePlace(r.rec.Root, r.rec.Size, buf[(i-from)*placeSize:][:placeSize])
		_, twice := r.note.at[page.Number]
		switch {
		case ok && !twice:
			r.note.at[page.Number] = i
			r.pages = append(r.pages, page)
			if torn {
				r.torn++
			}
		case i < known:
			r.lost++
		default:
			r.torn++
		}
	}
	return nil
}

// count finds how many bytes are said to be here.
func (r *readPart) count() {
	groups := b3.Groups(r.rec.Size)
	r.rec.Held = r.groups.Count() * b3.GroupSize
	if r.groups.Has(groups - 1) {
		r.rec.Held -= groups*b3.GroupSize - r.rec.Size
	}
}

// cut drops the groups that end behind the first n bytes, and reports how many
// those were.
func (r *readPart) cut(n int64) (dropped int) {
	groups := b3.Groups(r.rec.Size)
	for g := r.groups.Member(min(n/b3.GroupSize, groups), groups); g < groups; g = r.groups.Member(g+1, groups) {
		if min((g+1)*b3.GroupSize, r.rec.Size) > n {
			r.groups.Remove(g)
			dropped++
		}
	}
	for i := range r.pages {
		r.pages[i].Bits = r.groups.Page(r.pages[i].Number)
	}
	r.count()
	return dropped
}

// makePart writes the note of a download whole.
func (d *downloads) makePart(rec partial.Record, pages []partial.Page) (*partNote, error) {
	note := newPartNote()
	var body []byte
	for i := range pages {
		note.at[pages[i].Number] = int64(i)
		body = append(body, encodePlace(rec.Root, &pages[i])...)
	}
	note.next, note.known = int64(len(pages)), int64(len(pages))
	return note, d.makeNote(d.partPath(rec.Root)+partSuffix, notePart, encodePartHead(rec, note.known), body)
}

// changePart writes what changed of a download to its note, durably. Pages that
// are new count as known with the next change.
func (d *downloads) changePart(note *partNote, rec partial.Record, pages []partial.Page) error {
	err := d.changeNote(d.partPath(rec.Root)+partSuffix, notePart, note.seq+1, encodePartHead(rec, note.known), func(f vfs.File) error {
		for i := range pages {
			at, ok := note.at[pages[i].Number]
			if !ok {
				at = note.next
				note.next++
				note.at[pages[i].Number] = at
			}
			if _, err := f.WriteAt(encodePlace(rec.Root, &pages[i]), placeOffset(at)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		note.seq++
		note.known = note.next
	}
	return err
}

// partTable is what is noted of downloads, by address. It is bounded by what is
// in part/.
type partTable struct {
	mu    sync.Mutex
	recs  map[b3.Root]partial.Record
	order []b3.Root
}

func (t *partTable) set(rec partial.Record) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.recs[rec.Root]; !ok {
		at, _ := slices.BinarySearchFunc(t.order, rec.Root, meta.CompareRoots)
		t.order = slices.Insert(t.order, at, rec.Root)
	}
	t.recs[rec.Root] = rec
}

func (t *partTable) drop(root b3.Root) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.recs[root]; !ok {
		return
	}
	delete(t.recs, root)
	at, _ := slices.BinarySearchFunc(t.order, root, meta.CompareRoots)
	t.order = slices.Delete(t.order, at, at+1)
}

func (t *partTable) get(root b3.Root) (partial.Record, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, ok := t.recs[root]
	return rec, ok
}

// page appends what there is from root on to page, up to its capacity.
func (t *partTable) page(root b3.Root, page []partial.Record) []partial.Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, _ := slices.BinarySearchFunc(t.order, root, meta.CompareRoots)
	for _, root := range t.order[at:] {
		if len(page) == cap(page) {
			break
		}
		page = append(page, t.recs[root])
	}
	return page
}
