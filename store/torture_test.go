package store_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// tortured reports whether every case is tried, as `make torture` does, or a
// sample of them.
func tortured() bool { return os.Getenv("ALLIUM_TORTURE") != "" }

// every returns how far apart the cases of a sample are. Every case opens a store with the same goroutines, so the
// race detector, which is run with -short, looks at few of them.
func every(sample int) int {
	switch {
	case tortured():
		return 1
	case testing.Short():
		return 16 * sample
	}
	return sample
}

// logRecord is a record as a test reads it from a segment.
type logRecord struct {
	off, body, end int64
	kind           byte
	batch          uint64
	root           b3.Root
}

// recordsOf reads the records of a segment that is whole.
func recordsOf(p []byte) (all []logRecord) {
	for at := int64(64); at+68 <= int64(len(p)) && string(p[at:at+4]) == "ALR3"; {
		n := binary.LittleEndian.Uint32(p[at+4:])
		r := logRecord{off: at, body: at + 68, end: at + 68 + int64(n&0xffffff), kind: byte(n >> 24),
			batch: binary.LittleEndian.Uint64(p[at+16:]), root: b3.Root(p[at+32 : at+64])}
		all = append(all, r)
		at = r.end
	}
	return all
}

// victim is a store to be damaged, on disk as one kind of stop left it.
type victim struct {
	stop  string
	disk  *vfs.MemFS
	l     *ledger
	last  uint64 // the last batch
	files map[string][]byte
	recs  map[string][]logRecord
}

// victims makes one store and stops it in three ways.
func victims(t *testing.T) []*victim {
	t.Helper()
	disk := vfs.NewCrashableMem()
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: disk})
	l := newLedger()
	script(t, s, l)
	for i := range 30 { // so that there are several segments
		p := storetest.Bytes(uint64(9000+i), 40_000+i)
		storetest.Put(t, s, p)
		l.object(p, present)
		if i%7 == 3 {
			if err := s.Delete(t.Context(), b3.Sum(p)); err != nil {
				t.Fatal(err)
			}
			l.object(p, absent)
		}
		if i%7 == 5 {
			if err := s.Pin(t.Context(), b3.Sum(p), store.PinOptions{Label: "torture"}); err != nil {
				t.Fatal(err)
			}
			l.pin(b3.Sum(p), present)
		}
	}
	all := []*victim{
		{stop: "kill", disk: disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1,
			1))})},
		{stop: "power cut", disk: disk.CrashClone(vfs.CrashCloneCfg{})},
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	all = append(all, &victim{stop: "orderly", disk: disk.CrashClone(vfs.CrashCloneCfg{})})
	for _, v := range all {
		v.l, v.files, v.recs = l, map[string][]byte{}, map[string][]logRecord{}
		names, err := v.disk.List("/store/seg")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if !strings.HasSuffix(name, ".seg") {
				continue
			}
			name = path.Join("/store/seg", name)
			v.files[name] = read(t, v.disk, name)
			v.recs[name] = recordsOf(v.files[name])
			for _, r := range v.recs[name] {
				v.last = max(v.last, r.batch)
			}
		}
	}
	return all
}

// harm changes one file of a copy of a store.
type harm struct {
	what string
	file string // where the harm is
	from int64  // the first byte that it changes, to the end of what it changes
	to   int64
	do   func(t *testing.T, fs vfs.FS)
}

// write makes a file of p, in place of one that is there. With the race detector
// a file in RAM spoils the bytes that it was given, so it gets a copy.
func write(t *testing.T, fs vfs.FS, name string, p []byte) {
	t.Helper()
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(bytes.Clone(p)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// harms are the ways to damage the segments of v, one at a time.
func (v *victim) harms() (all []harm) {
	rng := rand.New(rand.NewPCG(7, 7))
	names := make([]string, 0, len(v.files))
	for name := range v.files {
		names = append(names, name)
	}
	slices.Sort(names)
	flip := func(name string, at int64) harm {
		by := byte(1 << rng.IntN(8))
		if rng.IntN(2) == 0 {
			by = byte(1 + rng.IntN(255))
		}
		return harm{fmt.Sprintf("byte %d of %s changed by %#x", at, path.Base(name), by), name, at, at + 1,
			func(t *testing.T, fs vfs.FS) {
				p := bytes.Clone(v.files[name])
				p[at] ^= by
				write(t, fs, name, p)
			}}
	}
	wipe := func(name string, from, to int64) harm {
		return harm{fmt.Sprintf("bytes %d to %d of %s wiped out", from, to, path.Base(name)), name, from, to,
			func(t *testing.T, fs vfs.FS) {
				p := bytes.Clone(v.files[name])
				for i := from; i < to; i++ {
					p[i] = 0xee
				}
				write(t, fs, name, p)
			}}
	}
	n := 0
	some := func(sample int) bool { n++; return n%every(sample) == 0 }
	for i, name := range names {
		p := v.files[name]
		size := int64(len(p))
		for at := range int64(64) {
			if some(5) {
				all = append(all, flip(name, at))
			}
		}
		for _, r := range v.recs[name] {
			for at := r.off; at < r.body; at++ {
				if some(97) {
					all = append(all, flip(name, at))
				}
			}
			if r.end > r.body && some(3) {
				all = append(all, flip(name, r.body+rng.Int64N(r.end-r.body)))
			}
			if some(4) {
				all = append(all, wipe(name, r.off, r.body))
			}
			if some(9) {
				all = append(all, wipe(name, r.off, r.end))
			}
		}
		cut := func(at int64) harm {
			return harm{fmt.Sprintf("%s cut at %d", path.Base(name), at), name, at, size,
				func(t *testing.T, fs vfs.FS) { write(t, fs, name, p[:at]) }}
		}
		for _, r := range v.recs[name] {
			if some(6) {
				all = append(all, cut(r.off+rng.Int64N(r.end-r.off)))
			}
		}
		all = append(all, cut(0), cut(33), cut(64),
			harm{path.Base(name) + " deleted", name, 0, size, func(t *testing.T, fs vfs.FS) {
				if err := fs.Remove(name); err != nil {
					t.Fatal(err)
				}
			}})
		if other := names[(i+1)%len(names)]; other != name {
			all = append(all, harm{path.Base(name) + " replaced by another", name, 0, size,
				func(t *testing.T, fs vfs.FS) { write(t, fs, name, v.files[other]) }})
		}
	}
	return all
}

// TestTorture damages the log, one place at a time, after each kind of stop. What
// the place does not touch is not lost, what is lost is told, what was deleted
// stays so, and wrong bytes are never served.
func TestTorture(t *testing.T) {
	t.Parallel()
	for _, v := range victims(t) {
		t.Run(v.stop, func(t *testing.T) {
			t.Parallel()
			all := v.harms()
			for _, h := range all {
				if err := v.suffer(t, h); err != nil {
					t.Errorf("after a stop by %s, %s: %v", v.stop, h.what, err)
				}
			}
			t.Logf("%d harms", len(all))
		})
	}
}

func (v *victim) suffer(t *testing.T, h harm) error {
	fs := v.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
	h.do(t, fs)
	s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: fs})
	if err != nil {
		return fmt.Errorf("the store does not open: %w", err)
	}
	defer stop()
	// What is touched, and what of it is at the end of the log, where an ordinary
	// crash leaves such things.
	touched, tail := map[b3.Root]bool{}, false
	for _, r := range v.recs[h.file] {
		if r.off < h.to && r.end > h.from {
			touched[r.root] = true
			tail = tail || r.batch == v.last && v.stop == "power cut"
		}
	}
	// After a power cut a segment that is cut looks like one that ends there.
	if v.stop == "power cut" && strings.Contains(h.what, "cut at") && h.file == lastSegment(t, v.disk) {
		tail = true
	}
	lost, back := 0, 0
	for root, want := range v.l.objects {
		o, err := s.Open(t.Context(), root)
		if err == nil {
			got := make([]byte, o.Size())
			n, _ := o.Reader().ReadAt(got, 0)
			o.Close()
			if !bytes.Equal(got[:n], v.l.bytes[root]) {
				return fmt.Errorf("%s holds other bytes", root)
			}
		}
		switch here := status.Of(err); {
		case here == status.OK && want == absent:
			back++
			if !touched[root] {
				return fmt.Errorf("%s was deleted and is back", root)
			}
		case here == status.OK || want != present:
		case !touched[root]:
			return fmt.Errorf("%s, which was not touched: %w", root, err)
		default:
			lost++
		}
	}
	pins := map[b3.Root]bool{}
	for p, err := range s.Pins(t.Context()) {
		if err != nil {
			return err
		}
		pins[p.Root] = true
	}
	for root, want := range v.l.pins {
		switch {
		case want == present && !pins[root]:
			if !touched[root] {
				return fmt.Errorf("the pin of %s, which was not touched, is gone", root)
			}
			lost++
		case want == absent && pins[root]:
			if !touched[root] {
				return fmt.Errorf("the pin of %s was dropped and is back", root)
			}
			back++
		}
	}
	open, _ := s.OpenDamage()
	if lost+back > 0 && open == 0 && s.Stats().Corrupt == 0 && !tail {
		return fmt.Errorf("%d are lost and %d back, and nothing is told: %+v", lost, back, s.Damage())
	}
	if err := stop(); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	// Once more: what was found is found, nothing more is lost.
	again, stop, err := storetest.Try(t, tiny(), store.Deps{FS: fs})
	if err != nil {
		return fmt.Errorf("the store does not open again: %w", err)
	}
	defer stop()
	for root, want := range v.l.objects {
		if _, err := again.Stat(t.Context(), root); want == present && !touched[root] && err != nil {
			return fmt.Errorf("%s is lost by the next start: %w", root, err)
		}
	}
	return nil
}
