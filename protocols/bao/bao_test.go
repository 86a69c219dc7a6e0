package bao

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
	oracle "lukechampine.com/blake3/bao"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is one with its tree.
type object struct {
	data []byte
	root b3.Root
	src  b3.Source
}

// newObject returns an object of n bytes that no two groups of are alike in.
func newObject(t interface{ Fatal(...any) }, n int) *object {
	o := &object{data: make([]byte, n)}
	x := uint32(n)*2654435761 + 1
	for i := range o.data {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		o.data[i] = byte(x)
	}
	var outboard bytes.Buffer
	h := b3.NewHasher(&outboard, 1)
	if _, err := h.Write(o.data); err != nil {
		t.Fatal(err)
	}
	root, _, err := h.Sum()
	if err != nil {
		t.Fatal(err)
	}
	o.root, o.src = root, b3.FileSource(bytes.NewReader(o.data), bytes.NewReader(outboard.Bytes()), int64(n))
	return o
}

func (o *object) encode(t interface{ Fatal(...any) }, r b3.Range) []byte {
	e, err := NewEncoder(b3.NewReader(o.root, int64(len(o.data)), o.src), r)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := e.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// want is the bytes of r.
func (o *object) want(r b3.Range) []byte {
	if r.Start < 0 {
		r.Start = max(0, int64(len(o.data))+r.Start)
	}
	if r.End < 0 || r.End > int64(len(o.data)) {
		r.End = int64(len(o.data))
	}
	return o.data[r.Start:r.End]
}

func decode(root b3.Root, r b3.Range, src io.Reader) ([]byte, *Decoder, error) {
	d := NewDecoder(root, r, src)
	p, err := io.ReadAll(d)
	return p, d, err
}

// sizes are those at which something changes.
var sizes = []int{0, 1, 1023, 1024, 1025, b3.GroupSize - 1, b3.GroupSize, b3.GroupSize + 1, 2 * b3.GroupSize,
	3*b3.GroupSize - 1, 4*b3.GroupSize + 17, 7 * b3.GroupSize}

// TestWhole: the encoding of a whole object is that of another implementation,
// as long as Len says, and decodes.
func TestWhole(t *testing.T) {
	t.Parallel()
	for _, n := range sizes {
		o := newObject(t, n)
		got := o.encode(t, b3.Range{End: -1})
		want, root := oracle.EncodeBuf(o.data, 6, false)
		if root != o.root || !bytes.Equal(got, want) {
			t.Fatalf("%d bytes: the encoding is not the oracle's", n)
		}
		if !bytes.Equal(got, o.encode(t, b3.Range{End: int64(n)})) {
			t.Errorf("%d bytes: another encoding when the end is named", n)
		}
		if l, err := Len(int64(n), b3.Range{End: -1}); err != nil || l != int64(len(got)) {
			t.Errorf("%d bytes: Len %d (%v), want %d", n, l, err, len(got))
		}
		p, d, err := decode(o.root, b3.Range{End: -1}, iotest.OneByteReader(bytes.NewReader(got)))
		if err != nil || !bytes.Equal(p, o.data) || !d.SizeProved() {
			t.Errorf("%d bytes: decoded %d, proved %t: %v", n, len(p), d.SizeProved(), err)
		}
		var b bytes.Buffer
		if k, err := NewDecoder(o.root, b3.Range{End: -1},
			iotest.HalfReader(bytes.NewReader(got))).WriteTo(&b); err != nil ||
			k != int64(n) || !bytes.Equal(b.Bytes(), o.data) {
			t.Errorf("%d bytes: WriteTo gave %d: %v", n, k, err)
		}
	}
}

// drawRange is a range of which an object of size bytes has something, and how
// the gateway encodes it.
func drawRange(t *rapid.T, size int64) (asked, encoded b3.Range) {
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		return b3.Range{End: -1}, b3.Range{End: -1}
	case 1:
		n := rapid.Int64Range(1, size+10).Draw(t, "suffix")
		return b3.Range{Start: -n, End: -1}, b3.Range{Start: max(0, size-n), End: size}
	}
	start := rapid.Int64Range(0, max(0, size-1)).Draw(t, "start")
	end := rapid.Int64Range(start+1, size+b3.GroupSize).Draw(t, "end")
	return b3.Range{Start: start, End: end}, b3.Range{Start: start, End: min(end, size)}
}

// TestRanges is a property: any range decodes to exactly its bytes, in as many
// bytes as Len says, and one that reaches the end proves the size.
func TestRanges(t *testing.T) {
	t.Parallel()
	objects := make([]*object, len(sizes))
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(sizes)-1).Draw(t, "size")
		if objects[i] == nil {
			objects[i] = newObject(t, sizes[i])
		}
		o := objects[i]
		asked, encoded := drawRange(t, int64(len(o.data)))
		enc := o.encode(t, encoded)
		if l, err := Len(int64(len(o.data)), encoded); err != nil || l != int64(len(enc)) {
			t.Fatalf("Len %d (%v), want %d", l, err, len(enc))
		}
		p, d, err := decode(o.root, asked, bytes.NewReader(enc))
		if err != nil || !bytes.Equal(p, o.want(asked)) {
			t.Fatalf("%v: %d bytes of %d: %v", asked, len(p), len(o.want(asked)), err)
		}
		if reaches := asked.End < 0 || asked.End >= int64(len(o.data)); reaches && !d.SizeProved() {
			t.Errorf("%v: the size is not proved", asked)
		}
	})
}

// returned is what the object has where d says that p is from. Of a range that
// counts from the end that place is a claim until the size is proved.
func (o *object) returned(asked b3.Range, p []byte, d *Decoder) []byte {
	if from := d.Offset() - int64(len(p)); asked.Start < 0 && len(p) > 0 && !d.SizeProved() {
		return o.data[from:]
	}
	return o.want(asked)
}

// TestClaimedStart: a range that counts from the end of another size is an error,
// and what was returned before are bytes of the object all the same.
func TestClaimedStart(t *testing.T) {
	t.Parallel()
	o := newObject(t, 4*b3.GroupSize+17)
	asked, size := b3.Range{Start: -30, End: -1}, int64(len(o.data))
	for _, claim := range []int64{size - 16, size - 1, size + 1, size + 10} {
		enc := o.encode(t, b3.Range{Start: size - 30, End: size})
		binary.LittleEndian.PutUint64(enc, uint64(claim))
		p, d, err := decode(o.root, asked, bytes.NewReader(enc))
		if !errors.Is(err, b3.ErrCorrupt) || d.SizeProved() {
			t.Errorf("a claim of %d for %d: proved %t, %v", claim, size, d.SizeProved(), err)
		}
		if from := d.Offset() - int64(len(p)); len(p) == 0 || from != claim-30 || !bytes.HasPrefix(o.data[from:], p) {
			t.Errorf("a claim of %d for %d: %d bytes from %d on", claim, size, len(p), from)
		}
	}
}

// TestDamage is a property: whatever is done to an encoding, no wrong byte is
// returned, and its end is an error.
func TestDamage(t *testing.T) {
	t.Parallel()
	objects := make([]*object, len(sizes))
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(sizes)-1).Draw(t, "size")
		if objects[i] == nil {
			objects[i] = newObject(t, sizes[i])
		}
		o := objects[i]
		asked, encoded := drawRange(t, int64(len(o.data)))
		good := o.encode(t, encoded)
		bad := bytes.Clone(good)
		switch rapid.IntRange(0, 4).Draw(t, "damage") {
		case 0:
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 1:
			bad = bad[:rapid.IntRange(0, len(bad)-1).Draw(t, "length")]
		case 2:
			bad = append(bad, rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "more")...)
		case 3:
			at := rapid.IntRange(0, len(bad)-1).Draw(t, "without")
			bad = append(bad[:at], bad[at+1:]...)
		case 4:
			copy(bad,
				[]byte{byte(rapid.IntRange(0, 255).Draw(t, "claim")), byte(rapid.IntRange(0, 255).Draw(t, "claim")),
					byte(rapid.IntRange(0, 9).Draw(t, "claim"))})
		}
		p, d, err := decode(o.root, asked, bytes.NewReader(bad))
		if !bytes.HasPrefix(o.returned(asked, p, d), p) {
			t.Fatalf("%v: wrong bytes were returned", asked)
		}
		// Where the range does not reach the end, another claim may be as good:
		// the size is not proved, and every byte still is.
		if err == nil && !bytes.Equal(p, o.want(asked)) {
			t.Errorf("%v: %d bytes of %d and no error", asked, len(p), len(o.want(asked)))
		}
		if err != nil && status.Of(err) != status.Corrupt {
			t.Errorf("%v: %v is %s", asked, err, status.Of(err))
		}
		if err == nil && !bytes.Equal(bad[headerSize:], good[headerSize:]) {
			t.Errorf("%v: other items and no error", asked)
		}
		if err != nil && bytes.Equal(bad, good) {
			t.Errorf("%v: nothing was changed: %v", asked, err)
		}
	})
}

// TestClaims: a size that nothing proves is an error, and takes no memory.
func TestClaims(t *testing.T) {
	t.Parallel()
	o := newObject(t, 3*b3.GroupSize)
	for name, c := range map[string]struct {
		r   b3.Range
		enc []byte
	}{
		"nothing":                     {b3.Range{End: -1}, nil},
		"half a size":                 {b3.Range{End: -1}, []byte{1, 2, 3}},
		"a size alone":                {b3.Range{End: -1}, []byte{0, 0, 1, 0, 0, 0, 0, 0}},
		"empty, which it is not":      {b3.Range{End: -1}, make([]byte, 8)},
		"shorter than the range":      {b3.Range{Start: 100, End: 200}, []byte{50, 0, 0, 0, 0, 0, 0, 0}},
		"ends where the range begins": {b3.Range{Start: 100, End: 200}, []byte{100, 0, 0, 0, 0, 0, 0, 0}},
		"impossible":                  {b3.Range{End: -1}, bytes.Repeat([]byte{0xff}, 100)},
		"the largest": {b3.Range{End: -1}, append([]byte{0, 0, 0, 0, 0, 0, 0, 0x40},
			make([]byte, 64)...)},
		"suffix of nothing": {b3.Range{Start: -1, End: -1}, make([]byte, 8)},
	} {
		p, d, err := decode(o.root, c.r, bytes.NewReader(c.enc))
		if len(p) > 0 || !errors.Is(err, b3.ErrCorrupt) || d.SizeProved() {
			t.Errorf("%s: %d bytes, proved %t: %v", name, len(p), d.SizeProved(), err)
		}
	}
	if _, _, err := decode(o.root, b3.Range{Start: -1, End: 5},
		bytes.NewReader(make([]byte, 8))); status.Of(err) != status.BadRange {
		t.Errorf("a suffix with an end: %v", err)
	}
}

// TestReaderFails: what was cut is told from what is wrong, and can be gone on
// with where it stopped.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	o := newObject(t, 5*b3.GroupSize+3)
	enc := o.encode(t, b3.Range{Start: 10, End: -1})
	cut := errors.New("cut")
	got, d, err := decode(o.root, b3.Range{Start: 10, End: -1},
		io.MultiReader(bytes.NewReader(enc[:len(enc)/2]), iotest.ErrReader(cut)))
	if !errors.Is(err, cut) || errors.Is(err, b3.ErrCorrupt) || d.Offset() != int64(10+len(got)) {
		t.Fatalf("at %d after %d bytes: %v", d.Offset(), len(got), err)
	}
	if size, err := d.Begin(); err != nil || size != int64(len(o.data)) {
		t.Errorf("the claim is %d (%v)", size, err)
	}
	rest, _, err := decode(o.root, b3.Range{Start: d.Offset(), End: -1},
		bytes.NewReader(o.encode(t, b3.Range{Start: d.Offset(), End: -1})))
	if err != nil || !bytes.Equal(append(got, rest...), o.data[10:]) {
		t.Errorf("%d and %d bytes: %v", len(got), len(rest), err)
	}
	if _, _, err := decode(o.root, b3.Range{End: -1}, idle{}); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, cut) {
		t.Errorf("a read after the error: %v", err)
	}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if _, err := d.Read(make([]byte, 1)); !errors.Is(err, errClosed) {
		t.Errorf("a read after Close: %v", err)
	}
}

// idle is a reader that never gets anywhere.
type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// TestSourceIsWrong: an Encoder ends before the item that is wrong.
func TestSourceIsWrong(t *testing.T) {
	t.Parallel()
	o := newObject(t, 5*b3.GroupSize)
	good := o.encode(t, b3.Range{End: -1})
	for _, at := range []int{0, 2*b3.GroupSize + 9, len(o.data) - 1} {
		o.data[at] ^= 4
		e, err := NewEncoder(b3.NewReader(o.root, int64(len(o.data)), o.src), b3.Range{End: -1})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		n, err := e.WriteTo(&b)
		if !errors.Is(err, b3.ErrCorrupt) || n != int64(b.Len()) || !bytes.HasPrefix(good, b.Bytes()) ||
			b.Len() == len(good) {
			t.Errorf("byte %d: %d bytes written: %v", at, n, err)
		}
		o.data[at] ^= 4
	}
	e, err := NewEncoder(b3.NewReader(o.root, int64(len(o.data)), o.src), b3.Range{End: -1})
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	if _, err := e.WriteTo(failing{full}); !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
	if _, err := NewEncoder(b3.NewReader(o.root, -1, o.src), b3.Range{End: -1}); status.Of(err) != status.Upstream {
		t.Errorf("a negative size: %v", err)
	}
	if _, err := Len(10, b3.Range{Start: 5, End: 3}); status.Of(err) != status.BadRange {
		t.Errorf("a backward range: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// FuzzDecoder: any bytes are refused or are the object's.
func FuzzDecoder(f *testing.F) {
	o := newObject(f, 2*b3.GroupSize+100)
	for _, r := range []b3.Range{{End: -1}, {Start: 70000, End: 70001}, {Start: -1, End: -1}, {Start: 0, End: 5}} {
		enc := r
		if r.Start < 0 {
			enc.Start += int64(len(o.data))
		}
		f.Add(r.Start, r.End, o.encode(f, enc))
	}
	f.Add(int64(0), int64(-1), []byte{0, 0, 0, 0, 0, 0, 0, 0x40})
	f.Fuzz(func(t *testing.T, start, end int64, enc []byte) {
		r := b3.Range{Start: start, End: end}
		p, d, err := decode(o.root, r, bytes.NewReader(enc))
		if len(p) == 0 {
			return
		}
		if want := o.want(r); !bytes.HasPrefix(want, p) || err == nil && len(p) < len(want) {
			t.Fatalf("%v: %d bytes that are not the object's (%v)", r, len(p), err)
		}
		if size, _ := d.Begin(); d.SizeProved() && size != int64(len(o.data)) {
			t.Fatalf("a size of %d was proved", size)
		}
	})
}

// TestDecoderAllocates: a decoder's memory does not depend on the claim.
func TestDecoderAllocates(t *testing.T) {
	o := newObject(t, 4*b3.GroupSize)
	enc := o.encode(t, b3.Range{End: -1})
	var huge [headerSize + b3.ParentSize]byte
	huge[7] = 0x3f
	for name, p := range map[string][]byte{"honest": enc, "huge": huge[:]} {
		got := testing.AllocsPerRun(20, func() {
			d := NewDecoder(o.root, b3.Range{End: -1}, bytes.NewReader(p))
			_, _ = d.WriteTo(io.Discard)
			_ = d.Close()
		})
		if got > 60 { // some 20, and what the race detector takes out of the pools
			t.Errorf("%s: %.0f allocations", name, got)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	o := newObject(b, 64*b3.GroupSize)
	enc := o.encode(b, b3.Range{End: -1})
	b.SetBytes(int64(len(o.data)))
	for b.Loop() {
		d := NewDecoder(o.root, b3.Range{End: -1}, bytes.NewReader(enc))
		if _, err := d.WriteTo(io.Discard); err != nil {
			b.Fatal(err)
		}
		_ = d.Close()
	}
}

func BenchmarkEncode(b *testing.B) {
	o := newObject(b, 64*b3.GroupSize)
	b.SetBytes(int64(len(o.data)))
	for b.Loop() {
		e, err := NewEncoder(b3.NewReader(o.root, int64(len(o.data)), o.src), b3.Range{End: -1})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := e.WriteTo(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
