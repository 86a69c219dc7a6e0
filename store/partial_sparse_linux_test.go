package store_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"allium/protocols/b3"
	"allium/store"
	"allium/store/storetest"
)

// hollow is a large object of zeros, without the bytes.
type hollow struct {
	size     int64
	outboard growing
}

func newHollow(t *testing.T, size int64) (h hollow, root b3.Root) {
	t.Helper()
	h.size = size
	hs := b3.NewHasher(&h.outboard, 2)
	zeros := make([]byte, 1<<20)
	for n := int64(0); n < size; n += int64(len(zeros)) {
		if _, err := hs.Write(zeros[:min(int64(len(zeros)), size-n)]); err != nil {
			t.Fatal(err)
		}
	}
	root, _, err := hs.Sum()
	if err != nil {
		t.Fatal(err)
	}
	return h, root
}

type growing []byte

func (g *growing) Write(p []byte) (int, error) {
	*g = append(*g, p...)
	return len(p), nil
}

// ReadGroup implements b3.Source.
func (h hollow) ReadGroup(g int64, p []byte) (int, error) {
	p = p[:min(int64(len(p)), h.size-g*b3.GroupSize)]
	clear(p)
	return len(p), nil
}

// ReadParents implements b3.Source.
func (h hollow) ReadParents(node int64, p []byte) (int, error) {
	return copy(p[:b3.ParentSize], h.outboard[node*b3.ParentSize:]) / b3.ParentSize, nil
}

// onDisk is how many bytes a directory takes.
func onDisk(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if os.IsNotExist(err) {
			return nil
		}
		if err == nil {
			total += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// TestSparse keeps three groups of a large object: it takes the room of those,
// whatever lies between them.
func TestSparse(t *testing.T) {
	t.Parallel()
	const size = 1<<30 + 5 // what can be hashed in a test; nothing depends on it but the height
	h, root := newHollow(t, size)
	dir := t.TempDir()
	_, create := storetest.Start(t, embedded(dir), store.Deps{})
	if err := create(); err != nil {
		t.Fatal(err)
	}
	before := onDisk(t, dir)
	s, stop := storetest.Start(t, embedded(dir), store.Deps{})
	in, err := s.Ingest(t.Context(), root, size)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []int64{0, 9000, b3.Groups(size) - 1} {
		w, err := b3.NewWalk(root, size, []b3.Range{{Start: g * b3.GroupSize, End: g*b3.GroupSize + 1}})
		if err != nil {
			t.Fatal(err)
		}
		for {
			item, err := w.Fill(h, make([]byte, b3.GroupSize))
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := in.Write(item); err != nil {
				t.Fatal(err)
			}
		}
	}
	in.Suspend()
	if st := s.Stats(); st.PartialBytes != 2*b3.GroupSize+5 {
		t.Fatalf("stats say %+v", st)
	}
	part := onDisk(t, filepath.Join(dir, "part"))
	// Beside the groups, a block for each parent on three paths, and the file
	// system's own map of the holes.
	if most := int64(3*b3.GroupSize + 3*15*4096 + 64<<10); part < 2*b3.GroupSize || part > most {
		t.Errorf("3 groups of %d GiB take %d bytes in part/, want at most %d", size>>30, part, most)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	index := onDisk(t, dir) - before - part
	t.Logf("3 groups of %d GiB: %d bytes in part/, %d more elsewhere", size>>30, part, index)
	if index > 64<<10 {
		t.Errorf("the index grew by %d bytes", index)
	}
	s, _ = storetest.Start(t, embedded(dir), store.Deps{})
	o, err := s.OpenPartial(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	buf := make([]byte, b3.GroupSize)
	for _, g := range []int64{0, 9000, b3.Groups(size) - 1} {
		if _, err := o.Reader().ReadGroup(g, buf); err != nil {
			t.Errorf("group %d: %v", g, err)
		}
	}
	again, err := s.Ingest(t.Context(), root, size)
	if err != nil {
		t.Fatal(err)
	}
	if lo, hi := again.Missing(0, b3.Groups(size)); lo != 1 || hi != 9000 {
		t.Errorf("[%d, %d) is missing first", lo, hi)
	}
	again.Abort(nil)
}
