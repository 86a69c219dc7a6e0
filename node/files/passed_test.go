package files

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// meanwhileStore calls a function when it has read the first bytes of a file, and counts how often and how much of it
// was read.
type meanwhileStore struct {
	hashStore
	meanwhile func()
	puts      int
	bytes     int64
}

// Put implements Store.
func (s *meanwhileStore) Put(_ context.Context, r io.Reader, _ int64) (Object, error) {
	s.puts++
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		return Object{}, err
	}
	s.meanwhile()
	n, err := io.Copy(io.Discard, r)
	s.bytes = 100 + n
	return Object{Size: s.bytes}, err
}

// TestPassedFileChanges: a passed file that grows or shrinks while it is read is read once more, and is then a
// conflict. No more is read of it than one byte beyond the size that it had.
func TestPassedFileChanges(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	for _, c := range []struct {
		how    string
		times  int // that the size changes
		change int64
		want   status.Outcome
		bytes  int64 // of the last read
	}{
		{"stays", 0, 0, status.OK, size},
		{"grows once", 1, 500, status.OK, size + 500},
		{"grows", 2, 500, status.Conflict, size + 500 + 1},
		{"shrinks once", 1, -500, status.OK, size - 500},
		{"shrinks", 2, -500, status.Conflict, size - 1000},
	} {
		path := filepath.Join(t.TempDir(), "f")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		s := &meanwhileStore{}
		s.meanwhile = func() {
			if s.puts <= c.times {
				if err := os.Truncate(path, size+int64(s.puts)*c.change); err != nil {
					t.Error(err)
				}
			}
		}
		var added api.Added
		err = Add(t.Context(), s, PassedItems(&api.PassedFile{File: f, Name: "f"}), Reports{},
			func(_ context.Context, a api.Added) error { added = a; return nil })
		if status.Of(err) != c.want || hasDetail(err, changedFile) != (c.want == status.Conflict) {
			t.Errorf("%s: %v", c.how, err)
		}
		if s.puts != min(c.times+1, 2) || s.bytes != c.bytes || err == nil && added.Bytes != c.bytes {
			t.Errorf("%s: read %d times, the last time %d bytes; %+v", c.how, s.puts, s.bytes, added)
		}
		if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
			t.Errorf("%s: the offset of the file is %d, %v", c.how, at, err)
		}
	}
}

// TestPassedFileFails: an error of the disk names the file, and has the outcome of the disk's error.
func TestPassedFileFails(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := &meanwhileStore{meanwhile: func() { _ = f.Close() }} // reads fail from here on
	err = Add(t.Context(), s, PassedItems(&api.PassedFile{File: f, Name: "a name"}), Reports{},
		func(context.Context, api.Added) error { return nil })
	var e *os.PathError
	if !errors.As(err, &e) || e.Path != "a name" {
		t.Error(err)
	}
}

// TestSendFile: a large file of the disk is passed, and its tar begins only when it is read. A small one, and one
// that is no file of the system, are sent.
func TestSendFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	for size, passed := range map[int64]bool{api.LeastPassed - 1: false, api.LeastPassed: true} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, reads := range []bool{false, true} {
			n := &passedTo{reads: reads}
			for _, err := range SendFile(t.Context(), n, DiskItems(path), api.AddOptions{}, nil) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if (n.file != nil) != passed || n.file != nil && (n.file.Name != "f" || n.size != size) {
				t.Errorf("%d bytes: %+v was passed, of %d bytes", size, n.file, n.size)
			}
			if want := map[bool]string{true: "f"}[reads]; n.sent != want {
				t.Errorf("%d bytes: %q was sent, want %q", size, n.sent, want)
			}
		}
	}
}

// passedTo is a node that is passed a file. It reads the tar if reads is set.
type passedTo struct {
	api.Store
	reads bool
	file  *api.PassedFile
	size  int64  // of file
	sent  string // the file in the tar
}

// Add implements api.Store.
func (n *passedTo) Add(
	_ context.Context, tar io.Reader, o api.AddOptions, _ api.ProgressFunc,
) iter.Seq2[api.Added, error] {
	return func(yield func(api.Added, error) bool) {
		if n.file = o.File; n.file != nil {
			info, err := n.file.File.Stat()
			if err != nil {
				yield(api.Added{}, err)
				return
			}
			n.size = info.Size()
		}
		if n.reads {
			all, err := names(tar)
			if err != nil || len(all) != 1 {
				yield(api.Added{}, errors.Join(err, errors.New("not one file")))
				return
			}
			n.sent = all[0]
		}
		yield(api.Added{Root: b3.Root{1}, Hashed: 1}, nil)
	}
}
