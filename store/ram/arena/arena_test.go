package arena

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

func open(t testing.TB, limit int64) *Arena {
	t.Helper()
	a, err := New(limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Release)
	return a
}

// held is an extent and what it must hold.
type held struct {
	e    Extent
	want []byte
}

func (h held) check(t interface{ Fatalf(string, ...any) }, a *Arena) {
	got := make([]byte, len(h.want)+1)
	if n := a.ReadAt(h.e, got, 0); n != len(h.want) || !bytes.Equal(got[:n], h.want) {
		t.Fatalf("an extent of %d bytes reads %d, other bytes or fewer", len(h.want), n)
	}
}

// TestModel allocates, grows, writes, reads and frees at random against a map:
// no extent shows another's bytes or an earlier owner's, and the cap is exact.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(Block, 3*Region).Draw(t, "limit")
		a, err := New(limit)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Release()
		size := rapid.OneOf(rapid.IntRange(0, 3*Block), rapid.IntRange(0, 2*Region))
		var all []held
		var used, asked int64
		pick := func(t *rapid.T) int {
			if len(all) == 0 {
				t.Skip()
			}
			return rapid.IntRange(0, len(all)-1).Draw(t, "which")
		}
		fits := func(t *rapid.T, more int64, err error) bool {
			left := limit/Block*Block - used
			if err != nil && !errors.Is(err, ErrFull) {
				t.Fatalf("%v", err)
			}
			if (err == nil) != (more <= left) {
				t.Fatalf("%d more bytes with %d left: %v", more, left, err)
			}
			return err == nil
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				s := a.Stats()
				if s.Used != used || s.Wasted != used-asked || s.Wasted > int64(len(all))*Block ||
					s.Limit-s.Used != a.Available() {
					t.Fatalf("stats %+v, want used %d, asked for %d", s, used, asked)
				}
				if s.Touched < s.Used || s.Touched > s.Limit {
					t.Fatalf("stats %+v", s)
				}
			},
			"alloc": func(t *rapid.T) {
				n := size.Draw(t, "n")
				e, err := a.Alloc(n)
				if !fits(t, BlockSize(n), err) {
					return
				}
				h := held{e, make([]byte, n)}
				h.check(t, a)
				all = append(all, h)
				used, asked = used+BlockSize(n), asked+int64(n)
			},
			"grow": func(t *rapid.T) {
				h := &all[pick(t)]
				n := len(h.want) + size.Draw(t, "more")
				e, err := a.Grow(h.e, n)
				if !fits(t, BlockSize(n)-BlockSize(len(h.want)), err) {
					h.check(t, a)
					return
				}
				used, asked = used+BlockSize(n)-BlockSize(len(h.want)), asked+int64(n-len(h.want))
				h.e, h.want = e, append(h.want, make([]byte, n-len(h.want))...)
				h.check(t, a)
			},
			"write": func(t *rapid.T) {
				h := all[pick(t)]
				off := rapid.IntRange(0, len(h.want)).Draw(t, "off")
				p := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, size.Draw(t, "n"))
				if n, want := a.WriteAt(h.e, p, off), copy(h.want[off:], p); n != want {
					t.Fatalf("wrote %d of %d", n, want)
				}
			},
			"read": func(t *rapid.T) {
				h := all[pick(t)]
				off := rapid.IntRange(0, len(h.want)).Draw(t, "off")
				got := make([]byte, size.Draw(t, "n"))
				n := a.ReadAt(h.e, got, off)
				if want := h.want[off:min(len(h.want), off+len(got))]; !bytes.Equal(got[:n], want) {
					t.Fatalf("read %d bytes at %d, want %d, or others", n, off, len(want))
				}
			},
			"free": func(t *rapid.T) {
				i := pick(t)
				h := all[i]
				h.check(t, a)
				a.Free(h.e)
				all[i] = all[len(all)-1]
				all = all[:len(all)-1]
				used, asked = used-BlockSize(len(h.want)), asked-int64(len(h.want))
			},
		})
		for _, h := range all {
			h.check(t, a)
			a.Free(h.e)
		}
		if s := a.Stats(); s.Used != 0 || s.Touched > Region {
			t.Fatalf("with nothing in it: %+v", s)
		}
	})
}

// TestAtOnce lets many owners use one arena: none sees another's bytes.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	a := open(t, 3*Region)
	var owners sync.WaitGroup
	for i := range 8 {
		owners.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for range 500 {
				h := held{want: bytes.Repeat([]byte{byte(i + 1)}, rnd.IntN(100<<10))}
				var err error
				if h.e, err = a.Alloc(len(h.want)); err != nil {
					t.Error(err)
					return
				}
				fresh := make([]byte, len(h.want))
				if a.ReadAt(h.e, fresh, 0) != len(fresh) ||
					bytes.ContainsAny(fresh, "\x01\x02\x03\x04\x05\x06\x07\x08") {
					t.Error("a new extent has bytes of an old one")
				}
				a.WriteAt(h.e, h.want, 0)
				h.check(t, a)
				a.Free(h.e)
			}
		})
	}
	owners.Wait()
	if s := a.Stats(); s.Used != 0 || s.Wasted != 0 {
		t.Errorf("all is freed: %+v", s)
	}
}

// TestHolders: the memory stays while somebody holds the arena.
func TestHolders(t *testing.T) {
	t.Parallel()
	a, err := New(Region)
	if err != nil {
		t.Fatal(err)
	}
	h := held{want: []byte("still here")}
	if h.e, err = a.Alloc(len(h.want)); err != nil {
		t.Fatal(err)
	}
	a.WriteAt(h.e, h.want, 0)
	a.Retain()
	a.Release()
	h.check(t, a)
	a.Release()
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{-1, 0, Block - 1, MaxLimit + 1} {
		if a, err := New(limit); err == nil {
			a.Release()
			t.Errorf("an arena of %d bytes", limit)
		}
	}
}

func BenchmarkAllocFree4KiB(b *testing.B) {
	a := open(b, 64<<20)
	p := make([]byte, 4<<10)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		e, err := a.Alloc(len(p))
		if err != nil {
			b.Fatal(err)
		}
		a.WriteAt(e, p, 0)
		a.Free(e)
	}
}

func BenchmarkRead64KiB(b *testing.B) {
	a := open(b, 64<<20)
	p := make([]byte, 64<<10)
	e, err := a.Alloc(len(p))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		a.ReadAt(e, p, 0)
	}
}
