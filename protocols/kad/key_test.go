package kad

import (
	"bytes"
	"testing"

	kb "github.com/libp2p/go-libp2p-kbucket"
	"pgregory.net/rapid"
)

// The key space is the one of go-libp2p-kad-dht, whose servers we ask.
func TestKeyIsKadDHTs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) (Key, kb.ID) {
			p := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, name)
			return Hash(p), kb.ConvertKey(string(p))
		}
		a, ka := draw("a")
		b, kbb := draw("b")
		target, kt := draw("target")
		if !bytes.Equal(a[:], ka) {
			t.Fatalf("%x, kad-dht says %x", a, ka)
		}
		if got, want := a.CommonPrefix(b), kb.CommonPrefixLen(ka, kbb); got != want {
			t.Fatalf("common prefix %d, kad-dht says %d", got, want)
		}
		if got, want := target.Compare(a, b), bytes.Compare(kb.Xor(kt, ka), kb.Xor(kt, kbb)); got != want {
			t.Fatalf("compare %d, want %d", got, want)
		}
	})
}

func TestCommonPrefixOfNeighbours(t *testing.T) {
	t.Parallel()
	a := Hash([]byte("a"))
	for bit := range 256 {
		b := a
		b[bit/8] ^= 0x80 >> (bit % 8)
		if got := a.CommonPrefix(b); got != bit {
			t.Errorf("keys that differ in bit %d share %d", bit, got)
		}
	}
}
