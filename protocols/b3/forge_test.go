package b3

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"allium/protocols/status"
)

// TestFalseSize gives the receiver the strongest liar there is: one who answers
// every item with the true bytes that hash to what the receiver expects, if the
// object has any. No size but the true one is ever proved, and the walk over the
// whole of any other size fails at its last group at the latest.
func TestFalseSize(t *testing.T) {
	var claims []int
	for _, n := range sizes() {
		if n <= 9*GroupSize+1025 {
			claims = append(claims, n)
		}
	}
	for _, n := range claims {
		o := newObject(t, n)
		known := map[[Size]byte][]byte{o.root: o.data}
		for _, e := range o.reference(func(int64) bool { return true }) {
			if e.Parent {
				known[parentCV((*[ParentSize]byte)(e.data), false)] = e.data
			} else {
				known[groupCV(e.data, e.Group, false)] = e.data
			}
		}
		if len(o.preorder) > 0 {
			known[o.root] = o.preorder[:ParentSize]
		}
		for _, claim := range claims {
			whole, err := NewWalk(o.root, int64(claim), nil)
			if err != nil {
				t.Fatal(err)
			}
			proof, err := (*HashQueue)(nil).SizeProof(o.root, int64(claim))
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range []*Walk{whole, proof} {
				err := error(nil)
				for {
					item, ok := w.Next()
					if !ok || err != nil {
						break
					}
					var p Proved
					if p, err = w.Accept(known[w.wantCV]); err == nil && !item.Parent {
						if g := p.Offset(); !bytes.Equal(p.Data(), o.data[g:g+int64(item.Len)]) {
							t.Fatalf("size %d as %d: %s is not the object's", n, claim, item)
						}
					}
				}
				if claim == n {
					if err != nil || !w.SizeProved() {
						t.Fatalf("size %d: %v", n, err)
					}
				} else if status.Of(err) != status.Corrupt || w.SizeProved() {
					t.Fatalf("size %d passed for %d: %v", n, claim, err)
				}
			}
		}
	}
}

// TestBitFlips flips bits of every item of some trees: each one of a parent, of
// a small object and of the bytes around block and chunk boundaries of a group,
// and others at random.
func TestBitFlips(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 64, 1025, GroupSize, GroupSize + 1, 3*GroupSize + 1025, 5 * GroupSize} {
		o := newObject(t, n)
		w, err := NewWalk(o.root, o.size(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range o.reference(func(int64) bool { return true }) {
			for _, bit := range bitsOf(e.data, rng) {
				forged := slices.Clone(e.data)
				forged[bit/8] ^= 1 << (bit % 8)
				try := *w
				try.path = slices.Clone(w.path)
				if p, err := try.Accept(forged); !errors.Is(err, ErrCorrupt) || p.Valid() || p.Data() != nil {
					t.Fatalf("size %d, %s: bit %d was not missed", n, e.Item, bit)
				}
			}
			if _, err := w.Accept(e.data); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// bitsOf picks bits of an item: all of a small one.
func bitsOf(p []byte, rng *rand.Rand) []int {
	var out []int
	if len(p) <= 2048 {
		for bit := range 8 * len(p) {
			out = append(out, bit)
		}
		return out
	}
	for at := 0; at < len(p); at += 1024 {
		out = append(out, 8*at, 8*at+7+8*63, 8*at+8*64, 8*min(at+1024, len(p))-1)
	}
	for range 100 {
		out = append(out, rng.IntN(8*len(p)))
	}
	return out
}

// TestNothingUnprovedIsEmitted breaks every group and every parent of stored
// objects in turn, and reads: what comes out ends before the first group that
// the broken item was to prove.
func TestNothingUnprovedIsEmitted(t *testing.T) {
	for _, n := range []int{100, GroupSize, 2 * GroupSize, 7*GroupSize + 100} {
		o := newObject(t, n)
		check := func(name string, firstBad int64) {
			t.Helper()
			r := NewReader(o.root, o.size(), o.source())
			s := r.Section(0, -1)
			defer s.Close()
			var got bytes.Buffer
			wrote, err := s.WriteTo(&got)
			if status.Of(err) != status.Corrupt || wrote != int64(got.Len()) {
				t.Fatalf("size %d, %s: %d bytes, %v", n, name, wrote, err)
			}
			if want := pattern(n)[:firstBad]; !bytes.Equal(got.Bytes(), want) {
				t.Fatalf("size %d, %s: %d bytes came out, want %d", n, name, got.Len(), len(want))
			}
			if _, err := s.Read(make([]byte, 1)); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("a read after the failure: %v", err)
			}
			p := bytes.Repeat([]byte{0xee}, n)
			at, err := r.ReadAt(p, 0)
			if !errors.Is(err, ErrCorrupt) || int64(at) != firstBad || !bytes.Equal(p[:at], pattern(at)) ||
				!bytes.Equal(p[at:], make([]byte, n-at)) {
				t.Fatalf("size %d, %s: ReadAt gave %d, %v", n, name, at, err)
			}
		}
		for g := range Groups(o.size()) {
			end := g*GroupSize + int64(groupLen(o.size(), g)) - 1
			o.data[end] ^= 0x80
			check("group", g*GroupSize)
			o.data[end] ^= 0x80
		}
		var rec func(lo, hi int64)
		rec = func(lo, hi int64) {
			if hi-lo == 1 {
				return
			}
			at := nodeIndex(lo, hi, Groups(o.size())) * ParentSize
			o.outboard[at+63] ^= 1
			check("parent", lo*GroupSize)
			o.outboard[at+63] ^= 1
			mid := split(lo, hi)
			rec(lo, mid)
			rec(mid, hi)
		}
		rec(0, Groups(o.size()))
	}
}

// TestNoBypass copies a file with one wrong byte to a file and to a socket, both
// of which try to have the kernel move the bytes past any Read.
func TestNoBypass(t *testing.T) {
	o := newObject(t, 1000)
	o.data[600] ^= 1
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, o.data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := NewReader(o.root, o.size(), FileSource(f, nil, o.size()))

	dst, err := os.Create(path + ".copy")
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var received []byte
	var wg sync.WaitGroup
	wg.Go(func() {
		if c, err := l.Accept(); err == nil {
			received, _ = io.ReadAll(c)
			c.Close()
		}
	})
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]io.Writer{"a file": dst, "a socket": conn} {
		for _, plain := range []bool{false, true} {
			s := r.Section(0, -1)
			src := io.Reader(s)
			if plain {
				src = struct{ io.Reader }{s}
			}
			if n, err := io.Copy(w, src); n != 0 || !errors.Is(err, ErrCorrupt) {
				t.Errorf("to %s: %d bytes, %v", name, n, err)
			}
			s.Close()
		}
	}
	conn.Close()
	wg.Wait()
	if stat, err := dst.Stat(); err != nil || stat.Size() != 0 || len(received) != 0 {
		t.Fatalf("the file got %d bytes, the socket %d, %v", stat.Size(), len(received), err)
	}
}
