package store_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/store"
	"allium/store/storetest"
)

// TestTortureIndex damages the files of the index, FORMAT, TAIL and DAMAGE, one
// place at a time. Nothing that was acknowledged is lost: at the latest the start
// after the one that met the damage has made the index anew.
func TestTortureIndex(t *testing.T) {
	t.Parallel()
	for _, v := range victims(t) {
		t.Run(v.stop, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(3, 3))
			names := []string{"/store/FORMAT", "/store/TAIL"}
			index, err := v.disk.List("/store/index")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range index {
				names = append(names, path.Join("/store/index", name))
			}
			n := 0
			for _, name := range names {
				if base := path.Base(name); base == "LOCK" {
					continue
				}
				if _, err := v.disk.Stat(name); err != nil {
					continue // it was not synced
				}
				whole := read(t, v.disk, name)
				try := func(what string, do func(fs vfs.FS)) {
					n++
					if err := v.sufferIndex(t, do); err != nil {
						t.Errorf("after a stop by %s, %s %s: %v", v.stop, name, what, err)
					}
				}
				try("deleted", func(fs vfs.FS) { _ = fs.Remove(name) })
				try("emptied", func(fs vfs.FS) { write(t, fs, name, nil) })
				if len(whole) == 0 {
					continue
				}
				try("cut in half", func(fs vfs.FS) { write(t, fs, name, whole[:len(whole)/2]) })
				flips := min(len(whole), 12)
				if tortured() {
					flips = min(len(whole), 2000)
				} else if testing.Short() {
					flips = 1
				}
				for range flips {
					at := rng.IntN(len(whole))
					by := byte(1 + rng.IntN(255))
					try(fmt.Sprintf("byte %d of %d changed by %#x", at, len(whole), by), func(fs vfs.FS) {
						p := bytes.Clone(whole)
						p[at] ^= by
						write(t, fs, name, p)
					})
				}
			}
			t.Logf("%d harms", n)
		})
	}
}

// sufferIndex checks the second start after the harm: the first one may meet it
// while it runs.
func (v *victim) sufferIndex(t *testing.T, do func(fs vfs.FS)) error {
	fs := v.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	do(fs)
	for round := range 2 {
		s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: fs})
		if err != nil {
			return fmt.Errorf("start %d: %w", round, err)
		}
		err = v.l.check(t, s)
		_ = stop() // says that the index failed, where it did
		if err == nil {
			return nil
		}
		if round == 1 {
			return err
		}
	}
	return nil
}
