package b3

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"allium/protocols/status"
)

func FuzzParse(f *testing.F) {
	f.Add("b3:" + emptyHex)
	f.Add("b3:" + emptyHex[1:])
	f.Add("B3:" + emptyHex)
	f.Add("b3:" + emptyHex[:63] + "F")
	f.Add("b3:" + emptyHex + "é")
	f.Add("b3:" + emptyHex[:60] + "é")
	f.Add("b3:" + emptyHex[:20] + "\xff")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := Parse(s)
		if err != nil {
			var bad *AddressError
			if !errors.As(err, &bad) || status.Of(err) != status.BadAddress || !r.IsZero() || len(bad.Text) > 83 {
				t.Fatal(r, err)
			}
			if lower, lowerErr := Parse(strings.ToLower(s)); (bad.Problem == UpperCase) != (lowerErr == nil) {
				t.Fatalf("%q: %v, but in lower case %s, %v", s, err, lower, lowerErr)
			}
			return
		}
		if r.String() != s {
			t.Fatalf("%q is read as %s", s, r)
		}
		if back, err := FromCID(r.CID()); err != nil || back != r {
			t.Fatal(back, err)
		}
	})
}

// FuzzWalk feeds a receiver arbitrary bytes for an object, with an arbitrary
// size claimed and an arbitrary range asked for: whatever it accepts is the
// object's, and a proved size is the object's.
func FuzzWalk(f *testing.F) {
	o := newObject(f, 3*GroupSize+100)
	w, err := NewWalk(o.root, o.size(), nil)
	if err != nil {
		f.Fatal(err)
	}
	var whole, proof []byte
	for _, e := range encode(f, w, o.source()) {
		whole = append(whole, e.data...)
	}
	if w, err = (*HashQueue)(nil).SizeProof(o.root, o.size()); err != nil {
		f.Fatal(err)
	}
	for _, e := range encode(f, w, o.source()) {
		proof = append(proof, e.data...)
	}
	f.Add(whole, o.size(), int64(0), int64(-1))
	f.Add(whole, o.size(), int64(70000), int64(80000))
	f.Add(whole[:200], int64(1<<62), int64(0), int64(-1))
	f.Add(whole, o.size()+1, int64(0), int64(-1))
	f.Add(proof, o.size(), o.size()-1, int64(-1))
	f.Add(proof, o.size()+GroupSize, o.size()-1, int64(1<<40))
	f.Add([]byte{}, int64(0), int64(0), int64(-1))
	f.Fuzz(func(t *testing.T, in []byte, size, start, end int64) {
		w, err := NewWalk(o.root, size, []Range{{start, end}})
		if err != nil {
			return
		}
		for {
			item, ok := w.Next()
			if !ok {
				break
			}
			if item.Len > GroupSize {
				t.Fatalf("%s has %d bytes", item, item.Len)
			}
			p, err := w.Accept(in[:min(len(in), item.Len)])
			if err != nil {
				if status.Of(err) != status.Corrupt || p.Valid() {
					t.Fatal(err)
				}
				break
			}
			in = in[item.Len:]
			if !p.IsParent() {
				if at := p.Offset(); at+int64(item.Len) > o.size() ||
					!bytes.Equal(p.Data(), o.data[at:at+int64(item.Len)]) {
					t.Fatalf("%s is not the object's", item)
				}
			} else if !isParentOf(o, p.Data()) {
				t.Fatalf("%s is not the object's", item)
			}
		}
		if w.SizeProved() && size != o.size() {
			t.Fatalf("%d was proved for %d", size, o.size())
		}
	})
}

// FuzzGroup compares what hashes groups with BLAKE3's definition: a full group
// and one of n bytes, made of p over and over, at any position and as a whole
// object.
func FuzzGroup(f *testing.F) {
	f.Add([]byte{0}, uint16(0), int64(0), false)
	f.Add([]byte("b3"), uint16(1), int64(1), true)
	f.Add(pattern(251), uint16(1024), int64(1<<26-1), false)
	f.Add(pattern(GroupSize), uint16(GroupSize-1), int64(1<<26), true)
	f.Add(pattern(1000), uint16(16385), int64(1<<47-1), false)
	f.Fuzz(func(t *testing.T, p []byte, n uint16, index int64, root bool) {
		if len(p) == 0 || index < 0 || index > Groups(1<<63-1) {
			return
		}
		if root {
			index = 0
		}
		full := bytes.Repeat(p, GroupSize/len(p)+1)[:GroupSize]
		for _, p := range [][]byte{full, full[:n]} {
			want := chunkwise(p, uint64(index)*64, root)
			if got := groupCV(p, index, root); got != want {
				t.Fatalf("%d bytes, group %d, root %v: got %x, want %x", len(p), index, root, got, want)
			}
			if got := portableGroupCV(p, uint64(index)*64); !root && got != want {
				t.Fatalf("guts, %d bytes, group %d: got %x, want %x", len(p), index, got, want)
			}
		}
	})
}

func isParentOf(o *object, p []byte) bool {
	for at := 0; at < len(o.preorder); at += ParentSize {
		if bytes.Equal(o.preorder[at:at+ParentSize], p) {
			return true
		}
	}
	return false
}
