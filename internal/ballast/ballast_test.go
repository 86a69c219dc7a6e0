package ballast

import (
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestBallast: it is made step by step while there is room, released step by
// step, counted again after a restart, and never made of the last bytes.
func TestBallast(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	b := New(disk, "/home/ballast", 3*Step)
	fill := func(want int64) {
		t.Helper()
		for {
			more, err := b.Fill(10 * Step)
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
		}
		if b.Bytes() != want*Step {
			t.Fatalf("%d bytes are held, want %d steps", b.Bytes(), want)
		}
	}
	usage := func(free int64) {
		disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: uint64(free), TotalBytes: 100 * Step})
	}
	fill(0) // the disk does not say what it has
	usage(10 * Step)
	fill(0)
	usage(11 * Step)
	fill(3) // of the disk's usage nothing is known here but what it was told
	again := New(disk, "/home/ballast", 3*Step)
	if again.Load(); again.Bytes() != 3*Step {
		t.Fatalf("%d bytes are held after a restart", again.Bytes())
	}
	b = again
	for range 3 {
		if !b.Release() {
			t.Fatal("nothing was released")
		}
	}
	if b.Release() || b.Bytes() != 0 || b.Released() != 3*Step {
		t.Fatalf("%d held, %d released", b.Bytes(), b.Released())
	}
	usage(3 * Step)
	if more, err := b.Fill(0); more || err != nil || b.Bytes() != 0 {
		t.Fatalf("made of the last bytes: %t, %v", more, err)
	}
	usage(1 << 40)
	fill(3)
}

// TestBallastTogether: any number may release and fill at once.
func TestBallastTogether(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	disk.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 40, TotalBytes: 1 << 40})
	b := New(disk, "/ballast", 4*Step)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				if _, err := b.Fill(0); err != nil {
					t.Error(err)
				}
				b.Release()
			}
		})
	}
	wg.Wait()
	n, err := disk.List("/ballast")
	if err != nil || int64(len(n))*Step != b.Bytes() {
		t.Errorf("%d files and %d bytes held, %v", len(n), b.Bytes(), err)
	}
}
