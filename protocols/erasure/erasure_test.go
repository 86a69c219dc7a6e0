package erasure

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// cut returns the shards of the first stripe of an object, all as long as the first one.
func cut(tb testing.TB, l Layout, p []byte) [][]byte {
	tb.Helper()
	code, err := NewCode(l)
	if err != nil {
		tb.Fatal(err)
	}
	s := l.Stripe(0)
	shards := make([][]byte, l.Shards())
	for i := range shards {
		shards[i] = make([]byte, s.Length(0))
		if r := s.Range(i); i < l.Data && r.Start < r.End {
			copy(shards[i], p[r.Start:r.End])
		}
	}
	if err := code.Encode(shards); err != nil {
		tb.Fatal(err)
	}
	return shards
}

func random(n int64) []byte {
	p := make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = rng.Read(p)
	return p
}

// TestEveryLoss: each loss of up to m shards is made up for, at all boundaries of sizes; one more is refused.
func TestEveryLoss(t *testing.T) {
	t.Parallel()
	for _, l := range []Layout{{0, 2, 1}, {0, 4, 2}, {0, 6, 3}} {
		const g = b3.GroupSize
		k := int64(l.Data)
		for _, size := range []int64{
			1, g - 1, g, g + 1, k*g - 1, k * g, k*g + 1, 2*k*g - 1, 2 * k * g, 2*k*g + 1, (k-1)*2*g + 1,
		} {
			l.Size = size
			t.Run(fmt.Sprint(l), func(t *testing.T) {
				t.Parallel()
				checkEveryLoss(t, l)
			})
		}
	}
}

func checkEveryLoss(t *testing.T, l Layout) {
	code, err := NewCode(l)
	if err != nil {
		t.Fatal(err)
	}
	whole := cut(t, l, random(l.Size))
	for lost := range 1 << l.Shards() {
		parts, wanted, n := make([][]byte, l.Shards()), make([]bool, l.Shards()), 0
		for i := range parts {
			if wanted[i] = lost>>i&1 == 1; wanted[i] {
				n++
				continue
			}
			parts[i] = whole[i][:min(len(whole[i]), 64)] // the code is byte by byte
		}
		err := code.Rebuild(parts, wanted)
		switch {
		case n > l.Parity && status.Of(err) != status.NotFound:
			t.Fatalf("%b lost: %v", lost, err)
		case n > l.Parity:
		case err != nil:
			t.Fatalf("%b lost: %v", lost, err)
		default:
			for i := range parts {
				if !bytes.Equal(parts[i], whole[i][:min(len(whole[i]), 64)]) {
					t.Fatalf("%b lost: shard %d is wrong", lost, i)
				}
			}
		}
	}
}

// TestLayout: the data shards are the object, each byte where Locate says, and no shard is longer than the first one.
func TestLayout(t *testing.T) {
	t.Parallel()
	const g = b3.GroupSize
	for _, l := range []Layout{
		{1, 2, 1}, {g, 2, 1}, {g + 1, 2, 1}, {7*g + 5, 3, 2}, {1 << 20, 6, 3}, {1<<20 + 1, 10, 4}, {2 * MaxShard, 2, 1},
		{2*MaxShard + 1, 2, 1}, {5*MaxShard + 3*g + 7, 2, 2}, {b3.MaxSize, 64 - 16, 16},
	} {
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		stripes := min(l.Stripes(), 10)
		var at int64
		for i := range stripes {
			s := l.Stripe(i)
			if s.Start != at || s.Shard > MaxShard || s.Shard%g != 0 {
				t.Fatalf("%v: stripe %d is %+v", l, i, s)
			}
			for j := range l.Data {
				r := s.Range(j)
				if r.Start != min(at, s.Start+s.Len) || r.End-r.Start != s.Length(j) || s.Length(j) > s.Length(0) {
					t.Fatalf("%v: shard %d of stripe %d is %v", l, j, i, r)
				}
				if r.Start < r.End {
					for _, off := range []int64{r.Start, r.End - 1} {
						if stripe, shard, in := l.Locate(off); stripe != i || shard != j || in != off-r.Start {
							t.Fatalf("%v: byte %d is in %d, %d at %d", l, off, stripe, shard, in)
						}
					}
				}
				at = r.End
			}
			for j := range l.Parity {
				if s.Length(l.Data+j) != s.Length(0) {
					t.Fatalf("%v: parity has %d bytes", l, s.Length(l.Data+j))
				}
			}
		}
		if l.Stripes() == stripes && at != l.Size {
			t.Errorf("%v ends at %d", l, at)
		}
	}
}

// manifestOf returns the manifest of an object with one stripe.
func manifestOf(tb testing.TB, l Layout) *Manifest {
	tb.Helper()
	p := random(l.Size)
	m := &Manifest{Layout: l, Object: b3.Sum(p), Shards: [][]b3.Root{nil}}
	if l.Size > b3.GroupSize {
		m.Outboard = b3.Sum([]byte("outboard"))
	}
	for i, shard := range cut(tb, l, p) {
		root := b3.Root{}
		if n := l.Stripe(0).Length(i); n > 0 {
			root = b3.Sum(shard[:n])
		}
		m.Shards[0] = append(m.Shards[0], root)
	}
	return m
}

// TestVector: the code and the manifest are those of other versions, byte for byte.
func TestVector(t *testing.T) {
	t.Parallel()
	p, err := manifestOf(t, Layout{200_000, 2, 1}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	const want = "616c6c69756d2d636f64696e672f310a"
	if got := hex.EncodeToString(p[:16]); got != want {
		t.Errorf("the first line is %s", got)
	}
	if got := b3.Sum(p).String(); got != vector {
		t.Errorf("the manifest is %s", got)
	}
}

const vector = "b3:d3793fac1443e4e5c1ecf1f03dbd12c3973bb545b65d187c595d0e2493693cee"

// TestManifest: what is encoded is decoded, and every lie about numbers, lengths and addresses is refused.
func TestManifest(t *testing.T) {
	t.Parallel()
	for _, l := range []Layout{{1, 2, 1}, {200_000, 2, 1}, {1 << 20, 6, 3}, {1_200_000, 6, 3}} {
		p, err := manifestOf(t, l).Encode()
		if err != nil {
			t.Fatal(err)
		}
		m, err := Decode(p)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := m.Encode(); err != nil || !bytes.Equal(again, p) {
			t.Errorf("%v is encoded otherwise: %v", l, err)
		}
		if _, err := Decode(append(p, 0)); status.Of(err) != status.BadRequest {
			t.Errorf("a byte more: %v", err)
		}
		if _, err := Decode(p[:len(p)-1]); status.Of(err) != status.BadRequest {
			t.Errorf("a byte less: %v", err)
		}
	}
	for name, spoil := range map[string]func(w *wire){
		"no data":          func(w *wire) { w.Data = 0 },
		"one data shard":   func(w *wire) { w.Data = 1 },
		"no parity":        func(w *wire) { w.Parity = 0 },
		"huge data":        func(w *wire) { w.Data = 1 << 63 },
		"huge parity":      func(w *wire) { w.Parity = 1 << 40 },
		"many shards":      func(w *wire) { w.Data, w.Parity = 60, 60 },
		"no bytes":         func(w *wire) { w.Size = 0 },
		"huge":             func(w *wire) { w.Size = 1 << 63 },
		"another size":     func(w *wire) { w.Size = 3 * MaxShard },
		"fewer shards":     func(w *wire) { w.Stripes[0] = w.Stripes[0][b3.Size:] },
		"more stripes":     func(w *wire) { w.Stripes = append(w.Stripes, w.Stripes[0]) },
		"no stripe":        func(w *wire) { w.Stripes = nil },
		"a missing shard":  func(w *wire) { clear(w.Stripes[0][:b3.Size]) },
		"no object":        func(w *wire) { clear(w.Object) },
		"no outboard":      func(w *wire) { clear(w.Outboard) },
		"short object":     func(w *wire) { w.Object = w.Object[1:] },
		"made of itself":   func(w *wire) { copy(w.Stripes[0], w.Object) },
		"outboard is it":   func(w *wire) { w.Outboard = w.Object },
		"address, no byte": func(w *wire) { w.Size = 70_000; w.Data, w.Parity = 2, 1; w.Size = 1; clear(w.Outboard) },
	} {
		m := manifestOf(t, Layout{200_000, 2, 1})
		p, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		var w wire
		if err := canonical.Unmarshal(p[len(Magic):], &w); err != nil {
			t.Fatal(err)
		}
		spoil(&w)
		body, err := canonical.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(append([]byte(Magic), body...)); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestChunk: a number picks any chunk of a shard, over all stripes, and none beyond.
func TestChunk(t *testing.T) {
	t.Parallel()
	m := &Manifest{Layout: Layout{2*MaxShard + 5*b3.GroupSize, 2, 1}, Object: b3.Root{1}, Outboard: b3.Root{2}}
	m.Shards = [][]b3.Root{{{3}, {4}, {5}}, {{6}, {7}, {8}}}
	if err := m.check(); err != nil {
		t.Fatal(err)
	}
	_, first := m.Shard(0, 1)
	_, second := m.Shard(1, 1)
	all := b3.Chunks(first) + b3.Chunks(second)
	for n, want := range map[int64]struct {
		root  b3.Root
		chunk int64
	}{
		0: {b3.Root{4}, 0}, b3.Chunks(first) - 1: {b3.Root{4}, b3.Chunks(first) - 1}, b3.Chunks(first): {b3.Root{7}, 0},
		all - 1: {b3.Root{7}, b3.Chunks(second) - 1}, all: {b3.Root{4}, 0},
	} {
		root, _, chunk, err := m.Chunk(1, n)
		if err != nil || root != want.root || chunk != want.chunk {
			t.Errorf("%d: %s, %d, %v", n, root, chunk, err)
		}
	}
	root, size, chunk, err := m.Chunk(-1, b3.Chunks(m.Size)+3)
	if err != nil || root != m.Object || size != m.Size || chunk != 3 {
		t.Errorf("whole: %s, %d, %d, %v", root, size, chunk, err)
	}
	for _, shard := range []int{3, 200} {
		if _, _, _, err := m.Chunk(shard, 0); status.Of(err) != status.BadRange {
			t.Errorf("shard %d: %v", shard, err)
		}
	}
}

// FuzzManifest: what is decoded is encoded to the same bytes, and its numbers are within bounds.
func FuzzManifest(f *testing.F) {
	for _, l := range []Layout{{1, 2, 1}, {200_000, 2, 1}, {1_200_000, 6, 3}} {
		p, err := manifestOf(f, l).Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(p)
	}
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := Decode(p)
		if err != nil {
			if status.Of(err) != status.BadRequest {
				t.Fatal(err)
			}
			return
		}
		if again, err := m.Encode(); err != nil || !bytes.Equal(again, p) {
			t.Fatalf("encoded otherwise: %v", err)
		}
		if len(m.Shards) != m.Stripes() || m.Bytes() < 1 || m.Empty() >= m.Data {
			t.Fatalf("%+v", m.Layout)
		}
	})
}

// BenchmarkEncode is the code alone: bytes of the object, 64 KiB of each shard at a time.
func BenchmarkEncode(b *testing.B) {
	for _, l := range []Layout{{1, 4, 2}, {1, 6, 3}, {1, 10, 4}} {
		b.Run(fmt.Sprintf("%d+%d", l.Data, l.Parity), func(b *testing.B) {
			code, err := NewCode(l)
			if err != nil {
				b.Fatal(err)
			}
			parts := make([][]byte, l.Shards())
			for i := range parts {
				parts[i] = random(b3.GroupSize)
			}
			b.SetBytes(int64(l.Data) * b3.GroupSize)
			for b.Loop() {
				if err := code.Encode(parts); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
