package blob

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/store/arriving/partial"
	"allium/store/meta"
)

// partNote says where the pages of the bitmap are in the note of a download.
type partNote struct {
	seq   uint64          // number of the newer slot
	at    map[int64]int64 // place of each page, by page number
	next  int64           // place of the next new page
	known int64           // number of places that are durable
}

func newPartNote() *partNote { return &partNote{seq: firstNote, at: map[int64]int64{}} }

// A place contains one page of the bitmap: the page's number as u64, the CRC of the
// address and the number, the CRC of the bits, and the bits.
const (
	placeHead = 8 + 4 + 4
	placeSize = placeHead + meta.PageBits/8
)

func placeOffset(i int64) int64 { return noteSlots + i*placeSize }

func pageSum(root b3.Root, number []byte) uint32 {
	return crc32.Update(crc32.Checksum(root[:], meta.Castagnoli), meta.Castagnoli, number)
}

func encodePlace(root b3.Root, page *meta.BitsPage) []byte {
	bits := partial.EncodeBits(&page.Bits)
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, placeSize), uint64(page.Number))
	b = binary.LittleEndian.AppendUint32(b, pageSum(root, b))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(bits, meta.Castagnoli))
	return append(b, bits...)
}

// decodePlace returns the page at a place; ok is false if there is none. torn reports
// that the bits are not those that were written. They may still be used, because
// every group is verified when it is read.
func decodePlace(root b3.Root, size int64, b []byte) (page meta.BitsPage, torn, ok bool) {
	n := binary.LittleEndian.Uint64(b)
	valid := pageSum(root, b[:8]) == binary.LittleEndian.Uint32(b[8:])
	if !valid || n > uint64((b3.Groups(size)-1)/meta.PageBits) {
		return page, false, false
	}
	page.Number = int64(n)
	bits := b[placeHead:]
	for i := range page.Bits {
		page.Bits[i] = binary.LittleEndian.Uint64(bits[8*i:])
	}
	return page, crc32.Checksum(bits, meta.Castagnoli) != binary.LittleEndian.Uint32(b[12:]), true
}

// partHead is the size of a slot's content in the note of a download: address, size
// as u64, last use as u32, number of durable places as u64.
const partHead = b3.Size + 8 + 4 + 8

func encodePartHead(rec meta.Partial, known int64) []byte {
	b := append(make([]byte, 0, partHead), rec.Root[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(rec.Size))
	b = binary.LittleEndian.AppendUint32(b, uint32(rec.Used))
	return binary.LittleEndian.AppendUint64(b, uint64(known))
}

func decodePartHead(root b3.Root, p []byte) (rec meta.Partial, known int64, ok bool) {
	if len(p) != partHead || b3.Root(p[:b3.Size]) != root {
		return rec, 0, false
	}
	p = p[b3.Size:]
	size, places := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[12:])
	if size <= b3.GroupSize || size > b3.MaxSize || places > uint64((b3.Groups(int64(size))-1)/meta.PageBits+1) {
		return rec, 0, false
	}
	rec = meta.Partial{Root: root, Size: int64(size), Used: meta.Second(binary.LittleEndian.Uint32(p[8:]))}
	return rec, int64(places), true
}

// readPart is the content of the note of a download.
type readPart struct {
	rec    meta.Partial
	note   *partNote
	groups partial.Bitmap
	pages  []meta.BitsPage
	torn   int // places with wrong bytes, which a crash may have caused
	lost   int // slots and places with damage that no crash causes: a disk writes a sector whole or not at all
}

// readPartNote reads a note; ok is false if neither slot is valid.
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
		r.groups.AddPage(page.Number, page.Bits, groups)
	}
	r.count()
	return r, true, nil
}

// placesOnce is the maximum number of places that one read covers.
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

// count sets rec.Stored to the number of bytes that the bitmap says are stored.
func (r *readPart) count() {
	groups := b3.Groups(r.rec.Size)
	r.rec.Stored = r.groups.Count() * b3.GroupSize
	if r.groups.Has(groups - 1) {
		r.rec.Stored -= groups*b3.GroupSize - r.rec.Size
	}
}

// cut removes the groups that end after the first n bytes from the bitmap. It returns
// how many it removed.
func (r *readPart) cut(n int64) (dropped int) {
	groups := b3.Groups(r.rec.Size)
	for g := r.groups.FirstPresent(min(n/b3.GroupSize, groups), groups); g < groups; g = r.groups.FirstPresent(g+1,
		groups) {
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

// makePart writes the complete note of a download.
func (d *downloads) makePart(rec meta.Partial, pages []meta.BitsPage) (*partNote, error) {
	note := newPartNote()
	var body []byte
	for i := range pages {
		note.at[pages[i].Number] = int64(i)
		body = append(body, encodePlace(rec.Root, &pages[i])...)
	}
	note.next, note.known = int64(len(pages)), int64(len(pages))
	return note, d.makeNote(d.partPath(rec.Root)+partSuffix, notePart, encodePartHead(rec, note.known), body)
}

// changePart writes changed pages to the note of a download, durably. The next change
// counts new pages as known.
func (d *downloads) changePart(note *partNote, rec meta.Partial, pages []meta.BitsPage) error {
	name, head := d.partPath(rec.Root)+partSuffix, encodePartHead(rec, note.known)
	err := d.changeNote(name, notePart, note.seq+1, head, func(f vfs.File) error {
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

// partTable has the records of the downloads in part/, by address. It grows with the
// number of files in part/.
type partTable struct {
	mu    sync.Mutex // lock: leaf
	recs  map[b3.Root]meta.Partial
	order []b3.Root
}

func (t *partTable) set(rec meta.Partial) {
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

func (t *partTable) get(root b3.Root) (meta.Partial, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec, ok := t.recs[root]
	return rec, ok
}

// page appends records to page, in ascending order from root, up to its capacity.
func (t *partTable) page(root b3.Root, page []meta.Partial) []meta.Partial {
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
