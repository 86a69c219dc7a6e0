package segment

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestZeroerKeepsOff: zeros never land on what the writer wrote, however they
// race, and what is behind the writer is zeros to the end of the file.
func TestZeroerKeepsOff(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		f, err := vfs.NewMem().Create("/f", vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		z := zeroer{maxAhead: 1 << 20}
		z.begin(f, 0, 1<<40)
		var want []byte
		for len(want) < 2<<20 {
			p := bytes.Repeat([]byte{0xaa}, 1+rng.IntN(100_000))
			at := int64(len(want))
			z.claimForWriter(at + int64(len(p)))
			if _, err := f.WriteAt(p, at); err != nil {
				t.Fatal(err)
			}
			want = append(want, p...)
			z.noteCommit(int64(len(p)), int64(len(want)))
		}
		z.stop()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, info.Size())
		if _, err := f.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got[:len(want)], want) || len(bytes.Trim(got[len(want):], "\x00")) > 0 {
			t.Fatalf("seed %d: the file holds other bytes", seed)
		}
		if ahead := len(got) - len(want); ahead > 1<<20 {
			t.Fatalf("%d bytes ahead", ahead)
		}
	}
}

// TestZeroerIdle: large commits, and a zeroer that is off, write no zeros.
func TestZeroerIdle(t *testing.T) {
	t.Parallel()
	f, err := vfs.NewMem().Create("/f", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	large, off := zeroer{maxAhead: 1 << 20}, zeroer{}
	for _, z := range []*zeroer{&large, &off} {
		z.begin(f, 0, 1<<40)
	}
	large.noteCommit(smallCommit+1, smallCommit+1)
	off.noteCommit(100, 100)
	large.stop()
	off.stop()
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Fatalf("%v, %v", info, err)
	}
}
