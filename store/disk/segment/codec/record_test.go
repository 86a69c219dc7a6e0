package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"allium/protocols/b3"
	"allium/store/disk/tables"
	"allium/store/meta"
)

// segmentOf is a segment of epoch with a batch of each group of bodies.
func segmentOf(epoch uint64, batches ...[][]byte) []byte {
	log := make([]byte, SegmentHeaderSize)
	SegmentHeader{Epoch: epoch}.encode(log)
	for i, bodies := range batches {
		var b Builder
		for _, p := range bodies {
			b.Object(meta.Entry{Root: b3.Sum(p), Added: 77}, p)
		}
		b.Seal(epoch, uint64(i+1), int64(len(log)), 0)
		log = append(log, b.buf...)
	}
	return log
}

func logOf(epoch uint64, bodies ...[]byte) []byte { return segmentOf(epoch, bodies) }

// everyKind is a segment with a record of each kind but an object's.
func everyKind(epoch uint64) []byte {
	root := b3.Sum([]byte("x"))
	var b Builder
	b.File(meta.Entry{Root: root, Size: b3.GroupSize + 1, Added: 5})
	b.Tombstone(root)
	b.Pin(meta.Pin{Root: root, Recursive: true, Label: "site", Created: time.Unix(1<<31, 0).UTC()})
	b.Pin(meta.Pin{Root: root, Created: time.Unix(0, 0).UTC()})
	b.Pin(meta.Pin{Root: root, Label: "rf", Created: time.Unix(0,
		0).UTC(), Target: meta.Target{Copies: 3, Seq: 1 << 40}})
	b.Pin(meta.Pin{
		Root: root, Recursive: true, Created: time.Unix(0, 0).UTC(), Target: meta.Target{Data: 6, Parity: 3, Seq: 1},
	})
	b.Pin(meta.Pin{Root: root, Label: "gone", Created: time.Unix(0,
		0).UTC(), Target: meta.Target{Seq: 7}, Released: true})
	b.Unpin(root, "site")
	b.Unpin(root, "")
	b.Segments(tables.EncodeSegments(map[uint64]int64{3: 900, 7: 0}))
	b.Retired(3)
	log := logOf(epoch)
	b.Seal(epoch, 1, int64(len(log)), 0)
	return append(log, b.buf...)
}

func scanOf(t testing.TB, log []byte) *Reader {
	t.Helper()
	h, ok := decodeSegmentHeader(log)
	if !ok {
		t.Fatal("there is no header")
	}
	return NewReader(bytes.NewReader(log), h, h.Size(), h.LastBatch, int64(len(log)))
}

// TestRecordKinds: every kind is read as it was written, a body that changed is
// noticed and mended, and none is longer than was said before it was written.
func TestRecordKinds(t *testing.T) {
	t.Parallel()
	log := everyKind(4)
	sc := scanOf(t, log)
	kinds := []Kind{
		KindFile, KindTombstone, KindPin, KindPin, KindPin, KindPin, KindPin, KindUnpin, KindUnpin,
		KindSegments, KindRetired,
	}
	for _, want := range kinds {
		rec, body, off, err := sc.Next()
		if err != nil || body == nil || rec.Kind != want {
			t.Fatalf("kind %d, %v; want %d", rec.Kind, err, want)
		}
		whole := log[off-RecordHeaderSize : off+int64(len(body))]
		made, ok := remake(rec, body, 4, off-RecordHeaderSize)
		if !ok || !bytes.Equal(made, whole) {
			t.Fatalf("kind %d is not what was written", want)
		}
		for i := range body {
			hurt := bytes.Clone(body)
			hurt[i] ^= byte(1 + i*37%255)
			if _, ok := remake(rec, hurt, 4, 0); ok {
				t.Fatalf("kind %d: byte %d of the body changes nothing", want, i)
			}
			if again, ok := MendBody(hurt); !ok || !bytes.Equal(again, body) {
				t.Fatalf("kind %d: byte %d of the body is not mended", want, i)
			}
		}
		said := int64(RecordHeaderSize)
		switch want {
		case KindFile:
			said = EntrySize(meta.Entry{Size: b3.MaxSize})
		case KindPin:
			pin, _ := rec.Pin(body)
			said = PinSize(pin)
		case KindUnpin:
			label, _ := rec.Unpin(body)
			said = UnpinSize(label)
		case KindRetired:
			said += retiredBodySize
		case KindSegments:
			said += int64(len(body))
		}
		if rec.Size() != said {
			t.Fatalf("kind %d has %d bytes, %d were said", want, rec.Size(), said)
		}
	}
	if _, body, _, _ := sc.Next(); body != nil || sc.Torn() {
		t.Error("there is more, or the end is torn")
	}
}

func TestSegmentHeader(t *testing.T) {
	t.Parallel()
	p := make([]byte, SegmentHeaderSize)
	want := SegmentHeader{Epoch: 7, Before: tables.Position{Seg: 3, Off: 1000}, LastBatch: 55}
	want.encode(p)
	if h, ok := decodeSegmentHeader(p); !ok || h != want {
		t.Fatalf("%+v, %t", h, ok)
	}
	for i := range p {
		for bit := range 8 {
			q := bytes.Clone(p)
			q[i] ^= 1 << bit
			if _, ok := decodeSegmentHeader(q); ok {
				t.Fatalf("bit %d of byte %d changes nothing", bit, i)
			}
			if h, ok := MendSegmentHeader(q); !ok || h != want {
				t.Fatalf("bit %d of byte %d is mended to %+v, %t", bit, i, h, ok)
			}
		}
	}
}

func TestRecordHeader(t *testing.T) {
	t.Parallel()
	body := []byte("a body")
	log := logOf(3, body)
	h := SegmentHeader{Epoch: 3}
	p := log[SegmentHeaderSize:]
	r, ok := h.decodeRecord(p, SegmentHeaderSize)
	if !ok || r.Root != b3.Sum(body) || r.Length != len(body) || r.BatchNumber != 1 || r.remaining != 0 {
		t.Fatalf("%+v, %t", r, ok)
	}
	if _, ok := (SegmentHeader{Epoch: 4}).decodeRecord(p, SegmentHeaderSize); ok {
		t.Error("a record of another life is taken")
	}
	if _, ok := h.decodeRecord(p, SegmentHeaderSize+1); ok {
		t.Error("a record of another place is taken")
	}
	for i := range RecordHeaderSize {
		for bit := range 8 {
			q := bytes.Clone(p)
			q[i] ^= 1 << bit
			if _, ok := h.decodeRecord(q, SegmentHeaderSize); ok {
				t.Fatalf("bit %d of byte %d changes nothing", bit, i)
			}
		}
		if _, ok := h.decodeRecord(p[:i], SegmentHeaderSize); ok {
			t.Fatalf("%d bytes are a header", i)
		}
	}
	var huge [RecordHeaderSize]byte
	encodeRecordHeader(huge[:], 3, 0, Record{Length: b3.GroupSize + 1})
	if _, ok := h.decodeRecord(huge[:], 0); ok {
		t.Error("a record longer than a group is taken")
	}
	if _, ok := (SegmentHeader{}).decodeRecord(make([]byte, 1000), 0); ok {
		t.Error("zeros are a record")
	}
}

// remake writes a record from what its body says; ok is false when it is
// damaged.
func remake(rec Record, body []byte, epoch uint64, at int64) (p []byte, ok bool) {
	var b Builder
	switch rec.Kind {
	case KindObject:
		return nil, false
	case KindFile:
		var e meta.Entry
		e, ok = rec.File(body)
		b.File(e)
	case KindTombstone:
		b.Tombstone(rec.Root)
		ok = rec.Added == 0
	case KindPin:
		var pin meta.Pin
		pin, ok = rec.Pin(body)
		b.Pin(pin)
		ok = ok && rec.Added == 0
	case KindUnpin:
		var label string
		label, ok = rec.Unpin(body)
		b.Unpin(rec.Root, label)
		ok = ok && rec.Added == 0
	case KindSegments:
		var ends map[uint64]int64
		ends, ok = rec.Segments(body)
		b.Segments(tables.EncodeSegments(ends))
		ok = ok && rec.Added == 0 && rec.Root.IsZero()
	case KindRetired:
		var num uint64
		num, ok = rec.Retired(body)
		b.Retired(num)
		ok = ok && rec.Added == 0 && rec.Root.IsZero()
	}
	b.Seal(epoch, rec.BatchNumber, at, rec.remaining)
	return b.buf, ok
}

// TestScan damages a segment of three batches in every way that one place can be,
// and looks which records are read all the same.
func TestScan(t *testing.T) {
	t.Parallel()
	var batches [][][]byte
	var starts, ends []int64 // of records
	log := int64(SegmentHeaderSize)
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
			log += int64(RecordHeaderSize + len(p))
			ends = append(ends, log)
		}
		batches = append(batches, batch)
	}
	whole := segmentOf(9, batches...)
	read := func(p []byte) (offs map[int64]bool, sc *Reader) {
		sc, offs = scanOf(t, p), map[int64]bool{}
		for {
			rec, body, off, err := sc.Next()
			if err != nil {
				t.Fatal(err)
			}
			if body == nil {
				return offs, sc
			}
			if b3.Sum(body) == rec.Root {
				offs[off-RecordHeaderSize] = true
			}
		}
	}
	offs, sc := read(whole)
	if len(offs) != 7 || sc.Torn() || sc.BatchNumber != 3 || len(sc.Holes) > 0 || sc.BatchStart != starts[5] {
		t.Fatalf("%d records, %+v", len(offs), sc)
	}
	if offs, sc := read(append(bytes.Clone(whole), make([]byte, 5000)...)); len(offs) != 7 || sc.Torn() {
		t.Fatalf("with zeros behind %d records, torn %t", len(offs), sc.Torn())
	}
	for i := SegmentHeaderSize; i < len(whole); i++ {
		p := bytes.Clone(whole)
		p[i] ^= byte(1 + rng.IntN(255))
		offs, sc := read(p)
		for k := range starts {
			inBody := int64(i) >= starts[k]+RecordHeaderSize && int64(i) < ends[k]
			if offs[starts[k]] == inBody {
				t.Fatalf("with byte %d changed record %d is read: %t", i, k, offs[starts[k]])
			}
		}
		if sc.Torn() {
			t.Fatalf("with byte %d changed the end is torn", i)
		}
	}
	// What is wiped out is lost, and nothing else.
	for k := range starts {
		for _, fill := range []byte{0, 0xff} {
			p := bytes.Clone(whole)
			for i := starts[k]; i < starts[k]+RecordHeaderSize; i++ {
				p[i] = fill
			}
			offs, sc := read(p)
			if len(offs) != 6 || offs[starts[k]] {
				t.Fatalf("without header %d, %d records are read", k, len(offs))
			}
			last := k == len(starts)-1
			oneHole := func() bool {
				return len(sc.Holes) == 1 && sc.Holes[0].Off == starts[k] && sc.Holes[0].Length == ends[k]-starts[k]
			}
			if last != sc.Torn() || !last && !oneHole() {
				t.Fatalf("without header %d the holes are %+v, torn %t", k, sc.Holes, sc.Torn())
			}
			if k >= 5 && k < len(starts)-1 && sc.Holes[0].Off < sc.BatchStart {
				t.Fatalf("the hole at %d is not in the last batch, which begins at %d", sc.Holes[0].Off, sc.BatchStart)
			}
		}
	}
	// A cut ends the log where it is, and is torn inside a batch.
	for cut := SegmentHeaderSize; cut < len(whole); cut += 7 {
		offs, sc := read(whole[:cut])
		n := 0
		for _, end := range ends {
			if int64(cut) >= end {
				n++
			}
		}
		if len(offs) != n || sc.Torn() != (cut != SegmentHeaderSize && int64(cut) != ends[1] && int64(cut) != ends[4]) {
			t.Fatalf("cut at %d: %d records of %d, torn %t", cut, len(offs), n, sc.Torn())
		}
	}
}

// TestScanRestOfFailedWrite: a batch that could not be written, and a shorter one
// in its place. What is left of the first is no record, and no damage.
func TestScanRestOfFailedWrite(t *testing.T) {
	t.Parallel()
	one, two, three := bytes.Repeat([]byte{1}, 100), bytes.Repeat([]byte{2}, 100), bytes.Repeat([]byte{3}, 100)
	log := segmentOf(9, [][]byte{one, two, three})
	var b Builder
	b.Object(meta.Entry{Root: b3.Sum(two), Added: 77}, two)
	b.Seal(9, 2, SegmentHeaderSize, 0)
	copy(log[SegmentHeaderSize:], b.buf)
	sc := scanOf(t, log)
	rec, body, _, err := sc.Next()
	if err != nil || body == nil || rec.Root != b3.Sum(two) {
		t.Fatalf("the first record is of %s, %v", rec.Root, err)
	}
	if rec, body, _, err := sc.Next(); body != nil || err != nil {
		t.Fatalf("there is a record of %s behind, %v", rec.Root, err)
	}
	if len(sc.Holes) > 0 || !sc.Torn() {
		t.Fatalf("holes %+v, torn %t", sc.Holes, sc.Torn())
	}
}

// TestScanInsideBody: an object that is a copy of the segment it is in. When its
// header is lost, nothing inside it is taken for a record.
func TestScanInsideBody(t *testing.T) {
	t.Parallel()
	first := segmentOf(9, [][]byte{[]byte("one")}, [][]byte{[]byte("two")})
	log := segmentOf(9, [][]byte{[]byte("one")}, [][]byte{[]byte("two")}, [][]byte{first}, [][]byte{[]byte("last")})
	clear(log[len(first) : len(first)+RecordHeaderSize])
	sc, n := scanOf(t, log), 0
	for {
		_, body, _, err := sc.Next()
		if err != nil {
			t.Fatal(err)
		}
		if body == nil {
			break
		}
		n++
	}
	if n != 3 || len(sc.Holes) != 1 || sc.Holes[0].Length != int64(RecordHeaderSize+len(first)) {
		t.Fatalf("%d records, holes %+v", n, sc.Holes)
	}
}

// FuzzScan: what the reader takes, it would write the same, byte by byte, and it
// ends.
func FuzzScan(f *testing.F) {
	f.Add(logOf(1, []byte("one"), nil, bytes.Repeat([]byte{1}, 5000)))
	f.Add(logOf(1, []byte("one"))[:90])
	f.Add(make([]byte, 200))
	f.Add(everyKind(9))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, ok := decodeSegmentHeader(p)
		if !ok {
			return
		}
		sc := NewReader(bytes.NewReader(p), h, h.Size(), h.LastBatch, int64(len(p)))
		for {
			rec, body, off, err := sc.Next()
			if err != nil {
				t.Fatal(err)
			}
			if body == nil {
				return
			}
			if h.OldFormat || len(sc.Holes) > 0 {
				continue
			}
			head := make([]byte, RecordHeaderSize)
			encodeRecordHeader(head, h.Epoch, off-RecordHeaderSize, rec)
			if again := append(head, body...); !bytes.Equal(again, p[off-RecordHeaderSize:off+int64(len(body))]) {
				t.Fatalf("the record at %d is written otherwise", off)
			}
		}
	})
}
