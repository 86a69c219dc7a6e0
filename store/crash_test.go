package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/gc"
	"allium/store/meta"
	"allium/store/storetest"
)

// state is what is known of one object or pin from what was acknowledged.
type state uint8

const (
	unknown state = iota // an operation on it is under way
	present
	absent
)

// ledger is what the store promised so far.
type ledger struct {
	mu      sync.Mutex
	objects map[b3.Root]state
	pins    map[b3.Root]state
	bytes   map[b3.Root][]byte
}

func newLedger() *ledger {
	return &ledger{objects: map[b3.Root]state{}, pins: map[b3.Root]state{}, bytes: map[b3.Root][]byte{}}
}

func (l *ledger) object(p []byte, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	root := b3.Sum(p)
	l.bytes[root] = p
	l.objects[root] = s
}

func (l *ledger) pin(root b3.Root, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pins[root] = s
}

// Copy is the ledger as it stands now.
func (l *ledger) Copy() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledger{objects: maps.Clone(l.objects), pins: maps.Clone(l.pins), bytes: maps.Clone(l.bytes)}
}

// check compares an open store with the ledger: what was acknowledged is there,
// what was deleted is not, and nothing wrong is served.
func (l *ledger) check(t testing.TB, s *store.Store) error {
	ctx := t.Context()
	for root, want := range l.objects {
		o, err := s.Open(ctx, root)
		if err == nil {
			got := make([]byte, o.Size())
			n, _ := o.Reader().ReadAt(got, 0)
			o.Close()
			if !bytes.Equal(got[:n], l.bytes[root]) {
				return fmt.Errorf("%s of %d bytes holds others", root, len(l.bytes[root]))
			}
		}
		switch here := status.Of(err); {
		case here == status.OK && want != absent, here == status.NotFound && want != present:
		default:
			return fmt.Errorf("%s of %d bytes: state %d, but open says %w", root, len(l.bytes[root]), want, err)
		}
	}
	if open, _ := s.OpenDamage(); open > 0 {
		return fmt.Errorf("what a crash leaves is taken for damage: %+v", s.Damage())
	}
	pins := map[b3.Root]bool{}
	for p, err := range s.Pins(ctx) {
		if err != nil {
			return err
		}
		pins[p.Root] = true
	}
	for root, want := range l.pins {
		if want == present && !pins[root] || want == absent && pins[root] {
			return fmt.Errorf("pin of %s: state %d, listed %t", root, want, pins[root])
		}
	}
	<-s.Adopted() // what a crash left between a rename and its record becomes an object meanwhile
	var n, size int64
	for root, err := range storetest.VerifyAll(ctx, s) {
		if err != nil {
			return err
		}
		n++
		size += int64(len(l.bytes[root]))
	}
	if st := s.Stats(); st.Objects != n || st.Bytes != size {
		return fmt.Errorf("%d objects of %d bytes are listed, but stats say %+v", n, size, st)
	}
	return nil
}

// script is a workload of every kind of write. An operation that fails leaves
// its object unknown, and the script goes on.
func script(t testing.TB, s *store.Store, l *ledger) {
	ctx := t.Context()
	put := func(p []byte) {
		l.object(p, unknown)
		if _, err := s.PutBytes(ctx, p, store.PutOptions{}); err == nil {
			l.object(p, present)
		}
	}
	remove := func(p []byte) {
		l.object(p, unknown)
		if o := status.Of(s.Delete(ctx, b3.Sum(p))); o == status.OK || o == status.NotFound {
			l.object(p, absent)
		}
	}
	content := func(i int) []byte {
		return storetest.Bytes(uint64(i),
			[]int{0, 100, 30_000, b3.GroupSize, b3.GroupSize + 1, 2*b3.GroupSize + 500}[i%6]+i)
	}
	for i := range 12 {
		put(content(i))
	}
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := range 4 {
				put(content(100 + 10*w + i))
			}
		})
	}
	wg.Wait()
	for _, i := range []int{2, 4, 101, 11} {
		remove(content(i))
	}
	pinned := b3.Sum(content(5))
	l.pin(pinned, unknown)
	if s.Pin(ctx, pinned, store.PinOptions{Recursive: true}) == nil {
		l.pin(pinned, present)
	}
	put(content(4)) // again, after it was deleted
	var later [][]byte
	for i := 200; i < 212; i++ {
		p := content(i)
		l.object(p, unknown)
		if _, err := s.PutBytes(ctx, p, store.PutOptions{Deferred: true}); err == nil {
			later = append(later, p)
		}
	}
	later = append(later, ingest(t, s, l, content(303)), ingest(t, s, l, content(305)))
	if s.Flush(ctx) == nil {
		for _, p := range later {
			l.object(p, present)
		}
	}
	l.pin(pinned, unknown)
	if o := status.Of(s.Unpin(ctx, pinned, "")); o == status.OK || o == status.NotFound {
		l.pin(pinned, absent)
	}
	remove(content(5))
	remove(content(3))
	collect(t, s, l, b3.Sum(content(0)))
	put(content(400))
}

// collect removes everything but keep, which it pins.
func collect(t testing.TB, s *store.Store, l *ledger, keep b3.Root) {
	l.pin(keep, unknown)
	if s.Pin(t.Context(), keep, store.PinOptions{}) != nil {
		return
	}
	l.pin(keep, present)
	var going [][]byte
	for root, st := range l.Copy().objects {
		if p := l.bytes[root]; root != keep && st == present {
			going = append(going, p)
			l.object(p, unknown)
		}
	}
	r, err := s.Collector().Run(t.Context(), gc.Options{All: true, Fast: true})
	if err != nil || r.Seen.Objects != r.Classes[gc.Removed].Objects+r.Classes[gc.Pinned].Objects {
		return // what a fault left in use stays
	}
	for _, p := range going {
		l.object(p, absent)
	}
}

// ingest downloads p, deferred; the object nobody put stands in for one that
// could not be committed.
func ingest(t testing.TB, s *store.Store, l *ledger, p []byte) []byte {
	l.object(p, unknown)
	in, err := s.Ingest(t.Context(), b3.Sum(p), int64(len(p)))
	if err != nil {
		return nil
	}
	for _, item := range storetest.Items(t, p, int64(len(p))) {
		if err := in.Write(item); err != nil {
			in.Abort(err)
			return nil
		}
	}
	if _, err := in.Commit(t.Context(), true); err != nil {
		return nil
	}
	return p
}

// TestCrash takes the power away before every write, sync, rename and unlink of
// the script, with a random half of the unsynced data on disk, and before every
// sync with none of it, and opens what is left.
func TestCrash(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	l := newLedger()
	crashes := make(chan storetest.Crash[*ledger])
	var wg sync.WaitGroup
	var survived, n, points int
	wg.Go(func() {
		for c := range crashes {
			n++
			if err := reopen(t, c.FS, c.Ledger); err != nil {
				t.Errorf("crash before %s: %v", c.At, err)
			}
			survived += len(c.Ledger.objects)
		}
	})
	var serial sync.Mutex
	rng := rand.New(rand.NewPCG(1, 2))
	injector := errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !storetest.ChangesDisk(op) {
			return nil
		}
		serial.Lock()
		defer serial.Unlock()
		if points++; points%every(1) != 0 {
			return nil
		}
		for _, c := range storetest.CrashesBefore(disk, rng, points, op, l) {
			crashes <- c
		}
		return nil
	})
	s, stop := storetest.Start(t, tiny(), store.Deps{FS: errorfs.Wrap(disk, injector)})
	script(t, s, l)
	if err := l.check(t, s); err != nil {
		t.Error(err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	close(crashes)
	wg.Wait()
	if err := reopen(t, disk.CrashClone(vfs.CrashCloneCfg{}), l); err != nil {
		t.Errorf("after an orderly stop: %v", err)
	}
	t.Logf("%d crashes at %d points, %d objects looked at", n, points, survived)
	if points < 200 || survived < 10*n {
		t.Error("the script met too few crash points to mean anything")
	}
}

// reopen opens what a crash left, checks it, and that it still works.
func reopen(t testing.TB, disk vfs.FS, l *ledger) error {
	s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: disk})
	if err != nil {
		return fmt.Errorf("does not open: %w", err)
	}
	defer func() { _ = stop() }()
	<-s.Adopted()
	for _, d := range s.Damage() {
		if d.Kind == meta.DamageFile || d.Kind == meta.DamageNote {
			return fmt.Errorf("the debris of a crash is taken for damage: %+v", d)
		}
	}
	if err := l.check(t, s); err != nil {
		return err
	}
	if err := tidy(disk, s); err != nil {
		return err
	}
	for i, size := range []int{10, b3.GroupSize + 10} {
		p := storetest.Bytes(uint64(9000+i), size)
		info, err := s.PutBytes(t.Context(), p, store.PutOptions{})
		if err != nil {
			return fmt.Errorf("put after the crash: %w", err)
		}
		if err := s.Verify(t.Context(), info.Root); err != nil {
			return fmt.Errorf("verify after the crash: %w", err)
		}
		l = l.Copy()
		l.object(p, present)
	}
	if err := stop(); err != nil {
		return err
	}
	s, again, err := storetest.Try(t, tiny(), store.Deps{FS: disk})
	if err != nil {
		return fmt.Errorf("does not open again: %w", err)
	}
	return errors.Join(l.check(t, s), again()) // hundreds that stay open are gigabytes
}

// tidy reports files that belong to no object.
func tidy(disk vfs.FS, s *store.Store) error {
	<-s.Adopted() // what the start finds in obj/ is looked at behind it
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	want := map[string]bool{}
	for info, err := range s.List(ctx) {
		if err != nil {
			return err
		}
		want[info.Root.Hex()] = true
		want[info.Root.Hex()+".ob"] = true
	}
	dirs := []string{"tmp", "part"}
	for i := range 256 {
		dirs = append(dirs, fmt.Sprintf("obj/%02x", i))
	}
	for _, dir := range dirs {
		names, err := disk.List(path.Join("/store", dir))
		if err != nil {
			return err
		}
		for _, name := range names {
			if dir == "part" && (strings.HasSuffix(name, ".up") || strings.HasSuffix(name, ".gone")) {
				continue // of an upload that is whole, or about to go
			}
			if !want[name] {
				return fmt.Errorf("%s/%s belongs to no object", dir, name)
			}
		}
	}
	return nil
}

// files lists a store's files below dir.
func files(t testing.TB, disk vfs.FS, dir string) []string {
	t.Helper()
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, name := range names {
		full := path.Join(dir, name)
		info, err := disk.Stat(full)
		if err != nil {
			t.Fatal(err)
		}
		if fs.FileInfo(info).IsDir() {
			all = append(all, files(t, disk, full)...)
		} else if !strings.HasSuffix(name, "LOCK") {
			all = append(all, full)
		}
	}
	return all
}
