package store_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/storetest"
)

// TestDamage changes stored files behind the store's back: no wrong byte leaves
// it, the object is counted and refused, and a new copy heals it.
func TestDamage(t *testing.T) {
	t.Parallel()
	little, big := storetest.Bytes(1, 20_000), storetest.Bytes(2, 9*b3.GroupSize+100)
	name := b3.Sum(big).Hex()
	data := filepath.Join("obj", name[:2], name)
	flip := func(at int64) func(t *testing.T, name string) {
		return func(t *testing.T, name string) {
			f, err := os.OpenFile(name, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var b [1]byte
			if _, err := f.ReadAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			b[0] ^= 0x10
			if _, err := f.WriteAt(b[:], at); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(t *testing.T, name string) {
		if err := os.Truncate(name, 600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(t *testing.T, name string) {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name   string
		file   string
		damage func(t *testing.T, name string)
		object []byte
		reason string
	}{
		{"byte of a record", "seg/0000000000000001.seg", flip(600), little, "digest"},
		{"segment cut", "seg/0000000000000001.seg", cut, little, "short"},
		{"byte of a file", data, flip(600), big, "digest"},
		{"last byte of a file", data, flip(int64(len(big) - 1)), big, "digest"},
		{"parent in the outboard", data + ".ob", flip(70), big, "digest"},
		{"file cut", data, cut, big, "short"},
		{"outboard cut", data + ".ob", func(t *testing.T, name string) {
			if err := os.Truncate(name, 64); err != nil {
				t.Fatal(err)
			}
		}, big, "short"},
		{"file gone", data, remove, big, "missing"},
		{"outboard gone", data + ".ob", remove, big, "missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s, stop := storetest.Start(t, embedded(dir), store.Deps{})
			root := storetest.Put(t, s, test.object)
			other := storetest.Bytes(3, b3.GroupSize+1)
			storetest.Put(t, s, other)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			test.damage(t, filepath.Join(dir, test.file))
			reg := prometheus.NewRegistry()
			s, _ = storetest.Start(t, embedded(dir), store.Deps{Env: env.Env{Metrics: reg}})

			o, err := s.Open(t.Context(), root)
			if err == nil {
				if len(test.object) <= b3.GroupSize {
					t.Error("a small object is handed out unchecked")
				}
				var got bytes.Buffer
				_, err = o.Reader().Section(0, -1).WriteTo(&got)
				if err == nil {
					t.Fatal("the damage was not seen")
				}
				if !bytes.HasPrefix(test.object, got.Bytes()) {
					t.Fatal("wrong bytes were served")
				}
				err = o.Failed(err)
				o.Close()
			}
			storetest.Want(t, err, status.Corrupt)
			if !bytes.Contains([]byte(err.Error()), []byte("fetch it again")) {
				t.Errorf("the error does not say what to do: %v", err)
			}
			for range 2 { // it stays refused
				_, err = s.Open(t.Context(), root)
				storetest.Want(t, err, status.Corrupt)
			}
			_, err = s.Stat(t.Context(), root)
			storetest.Want(t, err, status.Corrupt)
			if has, err := s.Has(t.Context(), []b3.Root{root}); err != nil || has[0] != b3.Absent {
				t.Errorf("has says %v, %v", has, err)
			}
			storetest.Want(t, s.Verify(t.Context(), root), status.Corrupt)
			if n := s.Stats().Corrupt; n != 1 {
				t.Errorf("%d corrupt objects", n)
			}
			if why := reasons(t, reg); len(why) != 1 {
				t.Errorf("reasons that are counted: %v", why)
			}
			for info, err := range s.List(t.Context()) {
				if err != nil || info.Corrupt != (info.Root == root) {
					t.Errorf("list says %+v, %v", info, err)
				}
			}
			storetest.Holds(t, s, other)

			if info, err := s.Put(t.Context(), bytes.NewReader(test.object), store.PutOptions{}); err != nil ||
				!info.New {
				t.Fatalf("put again says %+v, %v", info, err)
			}
			storetest.Holds(t, s, test.object)
			if err := s.Verify(t.Context(), root); err != nil {
				t.Error(err)
			}
			if st := s.Stats(); st.Corrupt != 0 || st.Objects != 2 {
				t.Errorf("stats say %+v", st)
			}
		})
	}
}

// TestVerifyClears: damage that went away, a bad cable, is no damage.
func TestVerifyClears(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _ := storetest.Start(t, embedded(dir), store.Deps{})
	p := storetest.Bytes(1, 3*b3.GroupSize)
	root := storetest.Put(t, s, p)
	name := filepath.Join(dir, "obj", root.Hex()[:2], root.Hex())
	if err := os.Rename(name, name+".away"); err != nil {
		t.Fatal(err)
	}
	storetest.Want(t, s.Verify(t.Context(), root), status.Corrupt)
	if err := os.Rename(name+".away", name); err != nil {
		t.Fatal(err)
	}
	_, err := s.Open(t.Context(), root)
	storetest.Want(t, err, status.Corrupt)
	if err := s.Verify(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	storetest.Holds(t, s, p)
}

// TestNoWayAround: an object's readers are not files, so that no sendfile can
// pass the verification by.
func TestNoWayAround(t *testing.T) {
	t.Parallel()
	s, _ := storetest.Start(t, embedded(t.TempDir()), store.Deps{})
	o, err := s.Open(t.Context(), storetest.Put(t, s, storetest.Bytes(1, 3*b3.GroupSize)))
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for _, r := range []any{o, o.Source(), o.Reader(), o.Reader().Section(0, -1)} {
		if _, ok := r.(interface{ Fd() uintptr }); ok {
			t.Errorf("%T gives its file away", r)
		}
		if _, ok := r.(io.ReaderFrom); ok {
			t.Errorf("%T can be filled", r)
		}
	}
	var group [b3.GroupSize]byte
	if n, err := o.Source().ReadGroup(2, group[:]); n != len(group) || err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("raw read: %d, %v", n, err)
	}
}
