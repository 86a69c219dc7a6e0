package store

import (
	"bufio"
	"bytes"
	"testing"
	"time"

	"allium/protocols/b3"
)

// log is a segment of epoch with a record for each body.
func logOf(epoch uint64, bodies ...[]byte) []byte {
	b := newBatch()
	for _, p := range bodies {
		b.add(b3.Sum(p), p)
	}
	b.seal(epoch, 77)
	head := make([]byte, segmentHeaderSize)
	putSegmentHeader(head, epoch)
	return append(head, b.buf...)
}

// everyKind is a record of each kind but an object's.
func everyKind(epoch uint64) []byte {
	root := b3.Sum([]byte("x"))
	p := appendFileRecord(nil, epoch, entry{root: root, size: b3.GroupSize + 1, added: 5})
	p = appendTombstone(p, epoch, root)
	p = appendPinRecord(p, epoch, Pin{Root: root, Recursive: true, Label: "site", Created: time.Unix(1<<31, 0).UTC()})
	p = appendPinRecord(p, epoch, Pin{Root: root, Created: time.Unix(0, 0).UTC()})
	p = appendUnpinRecord(p, epoch, root, "site")
	return appendUnpinRecord(p, epoch, root, "")
}

// TestRecordKinds: every kind is read as it was written, a body that changed is
// noticed, and none is longer than was said before it was written.
func TestRecordKinds(t *testing.T) {
	t.Parallel()
	log := everyKind(4)
	r := bufio.NewReader(bytes.NewReader(log))
	for _, want := range []recordKind{kindFile, kindTombstone, kindPin, kindPin, kindUnpin, kindUnpin} {
		rec, body, err := nextRecord(r, 4)
		if err != nil || body == nil || rec.kind != want {
			t.Fatalf("kind %d, %v; want %d", rec.kind, err, want)
		}
		whole := append(make([]byte, recordHeaderSize), body...)
		putRecordHeader(whole, 4, rec)
		made, ok := remake(rec, body, 4)
		if !ok || !bytes.Equal(made, whole) {
			t.Fatalf("kind %d is not what was written", want)
		}
		for i := range body {
			hurt := bytes.Clone(body)
			hurt[i] ^= 1
			if _, ok := remake(rec, hurt, 4); ok {
				t.Fatalf("kind %d: byte %d of the body changes nothing", want, i)
			}
		}
		said := int64(recordHeaderSize)
		switch want {
		case kindFile:
			said = recordOf(entry{size: b3.MaxSize})
		case kindPin:
			pin, _ := rec.pin(body)
			said = pinRecordSize(pin.Label)
		case kindUnpin:
			label, _ := rec.unpin(body)
			said = unpinRecordSize(label)
		}
		if rec.size() != said {
			t.Fatalf("kind %d has %d bytes, %d were said", want, rec.size(), said)
		}
		_, _ = r.Discard(int(rec.size()))
	}
	if _, body, _ := nextRecord(r, 4); body != nil {
		t.Error("there is more")
	}
}

func TestSegmentHeader(t *testing.T) {
	t.Parallel()
	p := logOf(7)
	if epoch, ok := parseSegmentHeader(p); !ok || epoch != 7 {
		t.Fatalf("epoch %d, %t", epoch, ok)
	}
	for i := range p {
		for bit := range 8 {
			q := bytes.Clone(p)
			q[i] ^= 1 << bit
			if _, ok := parseSegmentHeader(q); ok {
				t.Fatalf("bit %d of byte %d changes nothing", bit, i)
			}
		}
	}
}

func TestRecordHeader(t *testing.T) {
	t.Parallel()
	body := []byte("a body")
	p := logOf(3, body)[segmentHeaderSize:]
	r, ok := parseRecordHeader(p, 3)
	if !ok || r.root != b3.Sum(body) || r.length != len(body) {
		t.Fatalf("%+v, %t", r, ok)
	}
	if _, ok := parseRecordHeader(p, 4); ok {
		t.Error("a record of another life is taken")
	}
	for i := range recordHeaderSize {
		for bit := range 8 {
			q := bytes.Clone(p)
			q[i] ^= 1 << bit
			if _, ok := parseRecordHeader(q, 3); ok {
				t.Fatalf("bit %d of byte %d changes nothing", bit, i)
			}
		}
		if _, ok := parseRecordHeader(p[:i], 3); ok {
			t.Fatalf("%d bytes are a header", i)
		}
	}
	var huge [recordHeaderSize]byte
	putRecordHeader(huge[:], 3, record{length: b3.GroupSize + 1})
	if _, ok := parseRecordHeader(huge[:], 3); ok {
		t.Error("a record longer than a group is taken")
	}
	if _, ok := parseRecordHeader(make([]byte, 1000), 0); ok {
		t.Error("zeros are a record")
	}
}

// remake writes a record from what its body says; ok is false when it is
// damaged.
func remake(rec record, body []byte, epoch uint64) (p []byte, ok bool) {
	switch rec.kind {
	case kindObject:
		return nil, false
	case kindFile:
		e, ok := rec.file(body)
		return appendFileRecord(nil, epoch, e), ok
	case kindTombstone:
		return appendTombstone(nil, epoch, rec.root), rec.added == 0
	case kindPin:
		pin, ok := rec.pin(body)
		return appendPinRecord(nil, epoch, pin), ok && rec.added == 0
	}
	label, ok := rec.unpin(body)
	return appendUnpinRecord(nil, epoch, rec.root, label), ok && rec.added == 0
}

// FuzzRecord: what the parser takes, it would write the same, byte by byte.
func FuzzRecord(f *testing.F) {
	f.Add(logOf(1, []byte("one"), nil, bytes.Repeat([]byte{1}, 5000))[segmentHeaderSize:], uint64(1))
	f.Add(logOf(1, []byte("one"))[segmentHeaderSize:], uint64(2))
	f.Add(make([]byte, 200), uint64(0))
	f.Add(everyKind(9), uint64(9))
	f.Fuzz(func(t *testing.T, p []byte, epoch uint64) {
		r := bufio.NewReaderSize(bytes.NewReader(p), maxRecordSize)
		for at := 0; ; {
			rec, body, err := nextRecord(r, epoch)
			if err != nil {
				t.Fatal(err)
			}
			if body == nil {
				return
			}
			var head [recordHeaderSize]byte
			putRecordHeader(head[:], epoch, rec)
			again := append(head[:], body...)
			if !bytes.Equal(again, p[at:at+len(again)]) {
				t.Fatalf("the record at %d is written otherwise", at)
			}
			if made, ok := remake(rec, body, epoch); ok && !bytes.Equal(made, again) {
				t.Fatalf("the record at %d is made otherwise", at)
			}
			at += len(again)
			if _, err := r.Discard(len(again)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
