package b3

import (
	"bytes"
	"testing"

	"lukechampine.com/blake3/bao"
)

// pattern is the input of the official vectors: 0…250, repeated.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i % 251)
	}
	return p
}

func TestSmoke(t *testing.T) {
	for _, n := range []int{0, 1, 1023, 1024, 1025, 65535, 65536, 65537, 3 * 65536, 5*65536 + 7, 9 * 65536, 1 << 20, 1<<20 + 1} {
		p := pattern(n)
		enc, want := bao.EncodeBuf(p, 6, false)
		for workers := 1; workers < 4; workers++ {
			var ob bytes.Buffer
			h := NewHasher(&ob, workers)
			h.ReadFrom(bytes.NewReader(p))
			root, size, err := h.Sum()
			if root != want || size != int64(n) || err != nil || Sum(p) != want || int64(ob.Len()) != OutboardSize(size) {
				t.Fatal(n, workers, root, size, err, ob.Len())
			}
			w, err := NewWalk(root, size, nil)
			if err != nil {
				t.Fatal(err)
			}
			src := FileSource(bytes.NewReader(p), bytes.NewReader(ob.Bytes()), size)
			var got bytes.Buffer
			buf := make([]byte, GroupSize)
			for {
				if _, ok := w.Next(); !ok {
					break
				}
				pr, err := w.Fill(src, buf)
				if err != nil {
					t.Fatal(err)
				}
				got.Write(pr.Data())
			}
			if !bytes.Equal(got.Bytes(), enc[8:]) || !w.SizeProved() {
				t.Fatal("encoding")
			}
			got.Reset()
			s := NewReader(root, size, src).Section(0, -1)
			if n, err := s.WriteTo(&got); err != nil || n != size || !bytes.Equal(got.Bytes(), p) {
				t.Fatal(n, err)
			}
			s.Close()
		}
	}
}
