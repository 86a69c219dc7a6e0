package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/cockroachdb/pebble/v2/vfs"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/arriving/resumable"
	"allium/store/meta"
	"allium/store/storetest"
)

// uploadPromise is what the store said of one upload.
type uploadPromise struct {
	p     []byte
	least int64 // bytes that were acknowledged
	most  int64 // bytes that were ever given
	whole bool  // it was acknowledged as whole
	going bool  // a removal may be under way, or was acknowledged
	gone  bool
}

// uploadLedger is what the store promised of uploads so far.
type uploadLedger struct {
	mu   sync.Mutex
	said map[string]uploadPromise
}

func (l *uploadLedger) set(id string, now uploadPromise) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.said[id] = now
}

func (l *uploadLedger) Copy() *uploadLedger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &uploadLedger{said: maps.Clone(l.said)}
}

// uploadLabel is the label of every upload of the script.
const uploadLabel = "crash"

// Check opens what a crash left, compares it with what was promised, and ends
// every upload.
func (l *uploadLedger) Check(t testing.TB, disk vfs.FS) error {
	s, stop, err := storetest.Try(t, tiny(), store.Deps{FS: disk})
	if err != nil {
		return fmt.Errorf("does not open: %w", err)
	}
	defer func() { _ = stop() }()
	<-s.Adopted()
	if all := s.Damage(); len(all) > 0 {
		return fmt.Errorf("the debris of a crash is taken for damage: %+v", all)
	}
	for _, id := range slices.Sorted(maps.Keys(l.said)) {
		if err := l.said[id].check(t, s, id); err != nil {
			return fmt.Errorf("upload of %d bytes: %w", len(l.said[id].p), err)
		}
	}
	for u := range s.Stats().Uploads.Open {
		if u > 0 { // one whose begin was not acknowledged
			return fmt.Errorf("%d uploads are left", u+1)
		}
	}
	return tidyUploads(disk, s)
}

func (said uploadPromise) check(t testing.TB, s *store.Store, id string) error {
	ctx := t.Context()
	root := b3.Sum(said.p)
	u, err := s.Uploads().Get(ctx, id)
	_, visible := s.Stat(ctx, root)
	switch {
	case status.Of(err) == status.NotFound && said.going:
		return nil
	case err != nil:
		return err
	case said.gone:
		return fmt.Errorf("it came back: %+v", u)
	case u.Offset < said.least || u.Offset > said.most:
		return fmt.Errorf("%d bytes are here, %d were acknowledged of %d", u.Offset, said.least, said.most)
	case said.whole && u.Root != root:
		return fmt.Errorf("it was whole and is %+v", u)
	case (visible == nil) && said.most < int64(len(said.p)):
		return fmt.Errorf("it is visible before its last byte was given")
	case !u.Root.IsZero() && visible != nil:
		return fmt.Errorf("it is whole and not there: %w", visible)
	}
	if said.going && !said.whole {
		if err := s.Uploads().Remove(ctx, id); err != nil || said.most < int64(len(said.p)) {
			return err
		}
		return nil
	}
	u, err = s.Uploads().Append(ctx, resumable.Capability{}, id, u.Offset, bytes.NewReader(said.p[u.Offset:]))
	if err != nil || u.Root != root {
		return fmt.Errorf("it does not go on: %+v: %w", u, err)
	}
	if err := s.Verify(ctx, root); err != nil {
		return err
	}
	if pinned, _, err := s.Pinned(ctx, root); err != nil || !pinned {
		return fmt.Errorf("it is not pinned: %w", err)
	}
	return nil
}

// tidyUploads is tidy where uploads, open ones, may have files.
func tidyUploads(disk vfs.FS, s *store.Store) error {
	names, err := disk.List("/store/part")
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return strings.HasSuffix(name, ".up") || strings.HasSuffix(name, ".gone")
	})
	if open := s.Stats().Uploads.Open; int64(len(names)) > 2*open {
		return fmt.Errorf("part/ holds %v of %d uploads", names, open)
	}
	if len(names) > 0 {
		return nil
	}
	return tidy(disk, s)
}

// uploadScript makes uploads of each size in three appends, one of which is cut,
// and removes two.
func uploadScript(t testing.TB, s *store.Store, l *uploadLedger) {
	ctx := t.Context()
	begin := func(p []byte, expect b3.Root) resumable.Info {
		u, err := s.Uploads().New(ctx, resumable.Capability{},
			meta.UploadOptions{Length: int64(len(p)), Expect: expect, Label: uploadLabel, Pin: true})
		if err != nil {
			t.Fatal(err)
		}
		l.set(u.ID, uploadPromise{p: p})
		return u
	}
	add := func(id string, p []byte, from, to int, cut error) {
		l.set(id, uploadPromise{p: p, least: int64(from), most: int64(to)})
		r := io.Reader(bytes.NewReader(p[from:to]))
		if cut != nil {
			r = io.MultiReader(r, iotest.ErrReader(cut))
		}
		u, err := s.Uploads().Append(ctx, resumable.Capability{}, id, int64(from), r)
		if !errors.Is(err, cut) || u.Offset != int64(to) {
			t.Errorf("%d to %d: %+v, %v", from, to, u, err)
		}
		l.set(id, uploadPromise{p: p, least: int64(to), most: int64(to), whole: !u.Root.IsZero()})
	}
	for i, size := range []int{3000, 5*group + 100} {
		p := storetest.Bytes(uint64(800+i), size)
		u := begin(p, b3.Sum(p))
		add(u.ID, p, 0, size/4, nil)
		add(u.ID, p, size/4, size/2, errors.New("cut"))
		add(u.ID, p, size/2, size, nil)

		removed := storetest.Bytes(uint64(810+i), size)
		u = begin(removed, b3.Root{})
		add(u.ID, removed, 0, size/3, nil)
		l.set(u.ID, uploadPromise{p: removed, most: int64(size / 3), going: true})
		if err := s.Uploads().Remove(ctx, u.ID); err != nil {
			t.Error(err)
		}
		l.set(u.ID, uploadPromise{p: removed, going: true, gone: true})
	}
	there := storetest.Bytes(820, 2*group+1)
	storetest.Put(t, s, there)
	u := begin(storetest.Bytes(821, 2*group+1), b3.Root{})
	add(u.ID, storetest.Bytes(821, 2*group+1), 0, 2*group+1, nil)
}

// TestCrashUpload takes the power away before every write, sync, rename and
// unlink of uploads in three appends: what was acknowledged is there, nothing is
// visible before its end, and all goes on.
func TestCrashUpload(t *testing.T) {
	t.Parallel()
	l := &uploadLedger{said: map[string]uploadPromise{}}
	storetest.CrashEverywhere(t, tiny(), rand.New(rand.NewPCG(5, 6)), l, func(s *store.Store) { uploadScript(t, s, l) })
}
