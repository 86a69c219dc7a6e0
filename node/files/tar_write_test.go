package files

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// knownFiles yields n files whose addresses are known. between is called before each.
func knownFiles(n int, between func(i int) error) Items {
	return func(yield func(Item, error) bool) {
		for i := range n {
			if err := between(i); err != nil {
				yield(Item{}, err)
				return
			}
			it := Item{Path: fmt.Sprintf("tree/f%04d", i), Kind: manifest.File, Root: b3.Sum([]byte{byte(i)})}
			if !yield(it, nil) {
				return
			}
		}
	}
}

// writes counts writes, and keeps what is written.
type writes struct {
	bytes.Buffer
	n int
}

func (w *writes) Write(p []byte) (int, error) {
	w.n++
	return w.Buffer.Write(p)
}

// files returns how many files the tar has so far.
func (w *writes) files() (n int) {
	r := tar.NewReader(bytes.NewReader(w.Bytes()))
	for {
		if _, err := r.Next(); err != nil {
			return n
		}
		n++
	}
}

// TestTarIsGathered: what is small goes out together, and items that come seldom do not wait for others.
func TestTarIsGathered(t *testing.T) {
	t.Parallel()
	const n = 500
	synctest.Test(t, func(t *testing.T) {
		var w writes
		err := WriteTar(&w, knownFiles(n, func(int) error { return nil }))
		most := w.Len()/gatheredBytes + 1
		if err != nil || w.files() != n || w.n > most {
			t.Errorf("%d files in %d writes, want at most %d; %v", w.files(), w.n, most, err)
		}
		var slow writes
		err = WriteTar(&slow, knownFiles(n, func(i int) error {
			if had := slow.files(); had < i-1 {
				t.Errorf("%d of %d items are written", had, i)
			}
			time.Sleep(gatheredFor)
			return nil
		}))
		if err != nil || slow.files() != n {
			t.Errorf("%d files, %v", slow.files(), err)
		}
	})
}

// TestTarBeforeAnError: an item that cannot be read takes nothing with it of those before.
func TestTarBeforeAnError(t *testing.T) {
	t.Parallel()
	var w writes
	gone := errors.New("gone")
	err := WriteTar(&w, knownFiles(10, func(i int) error {
		if i == 7 {
			return gone
		}
		return nil
	}))
	if !errors.Is(err, gone) || w.files() != 7 {
		t.Errorf("%d files, %v", w.files(), err)
	}
	r, closed := io.Pipe()
	_ = r.Close()
	if err := WriteTar(closed, knownFiles(10, func(int) error { return nil })); !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}
