package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/store/index"
	"allium/store/meta"
)

// segmentOf is a segment of epoch with a batch of each group of bodies.
func segmentOf(epoch uint64, batches ...[][]byte) []byte {
	log := make([]byte, headerSize)
	header{epoch: epoch}.put(log)
	for i, bodies := range batches {
		b := newBatch()
		for _, p := range bodies {
			b.add(b3.Sum(p), p)
		}
		b.seal(epoch, uint64(i+1), int64(len(log)), 77)
		log = append(log, b.buf...)
	}
	return log
}

func logOf(epoch uint64, bodies ...[]byte) []byte { return segmentOf(epoch, bodies) }

// everyKind is a segment with a record of each kind but an object's.
func everyKind(epoch uint64) []byte {
	root := b3.Sum([]byte("x"))
	var b records
	b.file(meta.Entry{Root: root, Size: b3.GroupSize + 1, Added: 5})
	b.tombstone(root)
	b.pin(meta.Pin{Root: root, Recursive: true, Label: "site", Created: time.Unix(1<<31, 0).UTC()})
	b.pin(meta.Pin{Root: root, Created: time.Unix(0, 0).UTC()})
	b.unpin(root, "site")
	b.unpin(root, "")
	b.segments(index.EncodeSegments(map[uint64]int64{3: 900, 7: 0}))
	b.retired(3)
	log := logOf(epoch)
	b.seal(epoch, 1, int64(len(log)), 0)
	return append(log, b.buf...)
}

func scanOf(t testing.TB, log []byte) *scanner {
	t.Helper()
	h, ok := parseHeader(log)
	if !ok {
		t.Fatal("there is no header")
	}
	return newScanner(bytes.NewReader(log), h, h.size(), h.batch, int64(len(log)))
}

// TestRecordKinds: every kind is read as it was written, a body that changed is
// noticed and mended, and none is longer than was said before it was written.
func TestRecordKinds(t *testing.T) {
	t.Parallel()
	log := everyKind(4)
	sc := scanOf(t, log)
	for _, want := range []recordKind{kindFile, kindTombstone, kindPin, kindPin, kindUnpin, kindUnpin, kindSegments, kindRetired} {
		rec, body, off, err := sc.next()
		if err != nil || body == nil || rec.kind != want {
			t.Fatalf("kind %d, %v; want %d", rec.kind, err, want)
		}
		whole := log[off-recordHeaderSize : off+int64(len(body))]
		made, ok := remake(rec, body, 4, off-recordHeaderSize)
		if !ok || !bytes.Equal(made, whole) {
			t.Fatalf("kind %d is not what was written", want)
		}
		for i := range body {
			hurt := bytes.Clone(body)
			hurt[i] ^= byte(1 + i*37%255)
			if _, ok := remake(rec, hurt, 4, 0); ok {
				t.Fatalf("kind %d: byte %d of the body changes nothing", want, i)
			}
			if again, ok := mendBody(hurt); !ok || !bytes.Equal(again, body) {
				t.Fatalf("kind %d: byte %d of the body is not mended", want, i)
			}
		}
		said := int64(recordHeaderSize)
		switch want {
		case kindFile:
			said = RecordSize(meta.Entry{Size: b3.MaxSize})
		case kindPin:
			pin, _ := rec.pin(body)
			said = pinRecordSize(pin.Label)
		case kindUnpin:
			label, _ := rec.unpin(body)
			said = unpinRecordSize(label)
		case kindRetired:
			said += retiredBodySize
		case kindSegments:
			said += int64(len(body))
		}
		if rec.size() != said {
			t.Fatalf("kind %d has %d bytes, %d were said", want, rec.size(), said)
		}
	}
	if _, body, _, _ := sc.next(); body != nil || sc.torn() {
		t.Error("there is more, or the end is torn")
	}
}

func TestSegmentHeader(t *testing.T) {
	t.Parallel()
	p := make([]byte, headerSize)
	want := header{epoch: 7, before: index.Position{Seg: 3, Off: 1000}, batch: 55}
	want.put(p)
	if h, ok := parseHeader(p); !ok || h != want {
		t.Fatalf("%+v, %t", h, ok)
	}
	for i := range p {
		for bit := range 8 {
			q := bytes.Clone(p)
			q[i] ^= 1 << bit
			if _, ok := parseHeader(q); ok {
				t.Fatalf("bit %d of byte %d changes nothing", bit, i)
			}
			if h, ok := mendHeader(q); !ok || h != want {
				t.Fatalf("bit %d of byte %d is mended to %+v, %t", bit, i, h, ok)
			}
		}
	}
}

func TestRecordHeader(t *testing.T) {
	t.Parallel()
	body := []byte("a body")
	log := logOf(3, body)
	h := header{epoch: 3}
	p := log[headerSize:]
	r, ok := h.record(p, headerSize)
	if !ok || r.root != b3.Sum(body) || r.length != len(body) || r.number != 1 || r.left != 0 {
		t.Fatalf("%+v, %t", r, ok)
	}
	if _, ok := (header{epoch: 4}).record(p, headerSize); ok {
		t.Error("a record of another life is taken")
	}
	if _, ok := h.record(p, headerSize+1); ok {
		t.Error("a record of another place is taken")
	}
	for i := range recordHeaderSize {
		for bit := range 8 {
			q := bytes.Clone(p)
			q[i] ^= 1 << bit
			if _, ok := h.record(q, headerSize); ok {
				t.Fatalf("bit %d of byte %d changes nothing", bit, i)
			}
		}
		if _, ok := h.record(p[:i], headerSize); ok {
			t.Fatalf("%d bytes are a header", i)
		}
	}
	var huge [recordHeaderSize]byte
	putRecordHeader(huge[:], 3, 0, record{length: b3.GroupSize + 1})
	if _, ok := h.record(huge[:], 0); ok {
		t.Error("a record longer than a group is taken")
	}
	if _, ok := (header{}).record(make([]byte, 1000), 0); ok {
		t.Error("zeros are a record")
	}
}

// remake writes a record from what its body says; ok is false when it is
// damaged.
func remake(rec record, body []byte, epoch uint64, at int64) (p []byte, ok bool) {
	var b records
	switch rec.kind {
	case kindObject:
		return nil, false
	case kindFile:
		var e meta.Entry
		e, ok = rec.file(body)
		b.file(e)
	case kindTombstone:
		b.tombstone(rec.root)
		ok = rec.added == 0
	case kindPin:
		var pin meta.Pin
		pin, ok = rec.pin(body)
		b.pin(pin)
		ok = ok && rec.added == 0
	case kindUnpin:
		var label string
		label, ok = rec.unpin(body)
		b.unpin(rec.root, label)
		ok = ok && rec.added == 0
	case kindSegments:
		var ends map[uint64]int64
		ends, ok = rec.segments(body)
		b.segments(index.EncodeSegments(ends))
		ok = ok && rec.added == 0 && rec.root.IsZero()
	case kindRetired:
		var num uint64
		num, ok = rec.retired(body)
		b.retired(num)
		ok = ok && rec.added == 0 && rec.root.IsZero()
	}
	b.seal(epoch, rec.number, at, rec.left)
	return b.buf, ok
}

// TestScan damages a segment of three batches in every way that one place can be,
// and looks which records are read all the same.
func TestScan(t *testing.T) {
	t.Parallel()
	var batches [][][]byte
	var starts, ends []int64 // of records
	log := int64(headerSize)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{2, 3, 2} {
		var batch [][]byte
		for range n {
			p := make([]byte, 50+rng.IntN(300))
			for i := range p {
				p[i] = byte(rng.Uint32())
			}
			batch = append(batch, p)
			starts = append(starts, log)
			log += int64(recordHeaderSize + len(p))
			ends = append(ends, log)
		}
		batches = append(batches, batch)
	}
	whole := segmentOf(9, batches...)
	read := func(p []byte) (offs map[int64]bool, sc *scanner) {
		sc, offs = scanOf(t, p), map[int64]bool{}
		for {
			rec, body, off, err := sc.next()
			if err != nil {
				t.Fatal(err)
			}
			if body == nil {
				return offs, sc
			}
			if b3.Sum(body) == rec.root {
				offs[off-recordHeaderSize] = true
			}
		}
	}
	if offs, sc := read(whole); len(offs) != 7 || sc.torn() || sc.number != 3 || len(sc.holes) > 0 || sc.batchAt != starts[5] {
		t.Fatalf("%d records, %+v", len(offs), sc)
	}
	if offs, sc := read(append(bytes.Clone(whole), make([]byte, 5000)...)); len(offs) != 7 || sc.torn() {
		t.Fatalf("with zeros behind %d records, torn %t", len(offs), sc.torn())
	}
	for i := headerSize; i < len(whole); i++ {
		p := bytes.Clone(whole)
		p[i] ^= byte(1 + rng.IntN(255))
		offs, sc := read(p)
		for k := range starts {
			inBody := int64(i) >= starts[k]+recordHeaderSize && int64(i) < ends[k]
			if offs[starts[k]] == inBody {
				t.Fatalf("with byte %d changed record %d is read: %t", i, k, offs[starts[k]])
			}
		}
		if sc.torn() {
			t.Fatalf("with byte %d changed the end is torn", i)
		}
	}
	// What is wiped out is lost, and nothing else.
	for k := range starts {
		for _, fill := range []byte{0, 0xff} {
			p := bytes.Clone(whole)
			for i := starts[k]; i < starts[k]+recordHeaderSize; i++ {
				p[i] = fill
			}
			offs, sc := read(p)
			if len(offs) != 6 || offs[starts[k]] {
				t.Fatalf("without header %d, %d records are read", k, len(offs))
			}
			if last := k == len(starts)-1; last != sc.torn() || !last && (len(sc.holes) != 1 || sc.holes[0].off != starts[k] || sc.holes[0].length != ends[k]-starts[k]) {
				t.Fatalf("without header %d the holes are %+v, torn %t", k, sc.holes, sc.torn())
			}
			if k >= 5 && k < len(starts)-1 && sc.holes[0].off < sc.batchAt {
				t.Fatalf("the hole at %d is not in the last batch, which begins at %d", sc.holes[0].off, sc.batchAt)
			}
		}
	}
	// A cut ends the log where it is, and is torn inside a batch.
	for cut := headerSize; cut < len(whole); cut += 7 {
		offs, sc := read(whole[:cut])
		n := 0
		for _, end := range ends {
			if int64(cut) >= end {
				n++
			}
		}
		if len(offs) != n || sc.torn() != (cut != headerSize && int64(cut) != ends[1] && int64(cut) != ends[4]) {
			t.Fatalf("cut at %d: %d records of %d, torn %t", cut, len(offs), n, sc.torn())
		}
	}
}

// TestScanRestOfFailedWrite: a batch that could not be written, and a shorter one
// in its place. What is left of the first is no record, and no damage.
func TestScanRestOfFailedWrite(t *testing.T) {
	t.Parallel()
	one, two, three := bytes.Repeat([]byte{1}, 100), bytes.Repeat([]byte{2}, 100), bytes.Repeat([]byte{3}, 100)
	log := segmentOf(9, [][]byte{one, two, three})
	b := newBatch()
	b.add(b3.Sum(two), two)
	b.seal(9, 2, headerSize, 77)
	copy(log[headerSize:], b.buf)
	sc := scanOf(t, log)
	rec, body, _, err := sc.next()
	if err != nil || body == nil || rec.root != b3.Sum(two) {
		t.Fatalf("the first record is of %s, %v", rec.root, err)
	}
	if rec, body, _, err := sc.next(); body != nil || err != nil {
		t.Fatalf("there is a record of %s behind, %v", rec.root, err)
	}
	if len(sc.holes) > 0 || !sc.torn() {
		t.Fatalf("holes %+v, torn %t", sc.holes, sc.torn())
	}
}

// TestScanInsideBody: an object that is a copy of the segment it is in. When its
// header is lost, nothing inside it is taken for a record.
func TestScanInsideBody(t *testing.T) {
	t.Parallel()
	first := segmentOf(9, [][]byte{[]byte("one")}, [][]byte{[]byte("two")})
	log := segmentOf(9, [][]byte{[]byte("one")}, [][]byte{[]byte("two")}, [][]byte{first}, [][]byte{[]byte("last")})
	clear(log[len(first) : len(first)+recordHeaderSize])
	sc, n := scanOf(t, log), 0
	for {
		_, body, _, err := sc.next()
		if err != nil {
			t.Fatal(err)
		}
		if body == nil {
			break
		}
		n++
	}
	if n != 3 || len(sc.holes) != 1 || sc.holes[0].length != int64(recordHeaderSize+len(first)) {
		t.Fatalf("%d records, holes %+v", n, sc.holes)
	}
}

// FuzzScan: what the scanner takes, it would write the same, byte by byte, and it
// ends.
func FuzzScan(f *testing.F) {
	f.Add(logOf(1, []byte("one"), nil, bytes.Repeat([]byte{1}, 5000)))
	f.Add(logOf(1, []byte("one"))[:90])
	f.Add(make([]byte, 200))
	f.Add(everyKind(9))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, ok := parseHeader(p)
		if !ok {
			return
		}
		sc := newScanner(bytes.NewReader(p), h, h.size(), h.batch, int64(len(p)))
		for {
			rec, body, off, err := sc.next()
			if err != nil {
				t.Fatal(err)
			}
			if body == nil {
				return
			}
			if h.old || len(sc.holes) > 0 {
				continue
			}
			head := make([]byte, recordHeaderSize)
			putRecordHeader(head, h.epoch, off-recordHeaderSize, rec)
			if again := append(head, body...); !bytes.Equal(again, p[off-recordHeaderSize:off+int64(len(body))]) {
				t.Fatalf("the record at %d is written otherwise", off)
			}
		}
	})
}
