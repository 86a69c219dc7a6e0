package store

import (
	"bufio"
	"bytes"
	"testing"

	"allium/protocols/b3"
)

// log is a segment of epoch with a record for each body.
func logOf(epoch uint64, bodies ...[]byte) []byte {
	b := newBatch()
	for _, p := range bodies {
		b.add(b3.Sum(p), p)
	}
	b.seal(epoch)
	head := make([]byte, segmentHeaderSize)
	putSegmentHeader(head, epoch)
	return append(head, b.buf...)
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

// FuzzRecord: what the parser takes, it would write the same, byte by byte.
func FuzzRecord(f *testing.F) {
	f.Add(logOf(1, []byte("one"), nil, bytes.Repeat([]byte{1}, 5000))[segmentHeaderSize:], uint64(1))
	f.Add(logOf(1, []byte("one"))[segmentHeaderSize:], uint64(2))
	f.Add(make([]byte, 200), uint64(0))
	f.Fuzz(func(t *testing.T, p []byte, epoch uint64) {
		r := bufio.NewReaderSize(bytes.NewReader(p), maxRecordSize)
		for at := 0; ; {
			root, body, err := nextRecord(r, epoch)
			if err != nil {
				t.Fatal(err)
			}
			if body == nil {
				return
			}
			var head [recordHeaderSize]byte
			putRecordHeader(head[:], epoch, record{root: root, length: len(body)})
			again := append(head[:], body...)
			if !bytes.Equal(again, p[at:at+len(again)]) {
				t.Fatalf("the record at %d is written otherwise", at)
			}
			at += len(again)
			if _, err := r.Discard(len(again)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
