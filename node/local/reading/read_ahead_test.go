package reading

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/node/files"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/resolver/names"
)

// shelf has objects as a gateway does, and counts who opens how many at once.
type shelf struct {
	before func(ctx context.Context, root b3.Root, now int) error // of each Open; nil: nothing

	mu      sync.Mutex
	objects map[b3.Root][]byte
	opened  map[b3.Root]int
	now     int
	most    int
}

func (s *shelf) put(p []byte) b3.Root {
	root := b3.Sum(p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects, s.opened = map[b3.Root][]byte{}, map[b3.Root]int{}
	}
	s.objects[root] = bytes.Clone(p)
	return root
}

// newTree is a directory of files with these contents, called f000, f001, …
func (s *shelf) tree(t *testing.T, contents ...string) b3.Root {
	t.Helper()
	b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return s.put(p), nil })
	for i, c := range contents {
		e := manifest.Entry{Name: fmt.Sprintf("f%03d", i), Root: s.put([]byte(c)), Size: int64(len(c))}
		if err := b.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, _, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func (s *shelf) enter(root b3.Root, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
	if n > 0 {
		s.opened[root]++
	}
	return s.now
}

func (s *shelf) Open(ctx context.Context, root b3.Root, _ content.OpenOptions) (content.Content, error) {
	now := s.enter(root, 1)
	defer s.enter(root, -1)
	if s.before != nil {
		if err := s.before(ctx, root, now); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	p, ok := s.objects[root]
	s.mu.Unlock()
	if !ok {
		return nil, status.Errorf(status.NotFound, "%s is not on the shelf", root)
	}
	return shelved{&fileBytes{*bytes.NewBuffer(p)}}, nil
}

type shelved struct{ *fileBytes }

func (shelved) Encode(context.Context, io.Writer, int64, int64) error { return errors.ErrUnsupported }

// contents are n different ones, the long-th longer than what is read ahead.
func contents(n, long int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("content %d", i)
		if i == long {
			all[i] = strings.Repeat("x", readAheadBytes+1)
		}
	}
	return all
}

// entries are the files of a tar stream, in its order, and how it ended.
func entries(s *api.Stream) (files []string, err error) {
	defer s.Body.Close()
	tr := tar.NewReader(s.Body)
	for {
		h, err := tr.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return files, err
		}
		p, err := io.ReadAll(tr)
		if err != nil {
			return files, err
		}
		if h.Typeflag == tar.TypeReg {
			files = append(files, string(p))
		}
	}
}

// TestAhead: the small files of a directory are opened together, those that are
// long at their turn, and all come in order.
func TestAhead(t *testing.T) {
	t.Parallel()
	const files, long = 40, 20
	want := contents(files, long)
	together := make(chan struct{})
	s := &shelf{}
	root := s.tree(t, want...)
	longRoot := b3.Sum([]byte(want[long]))
	s.before = func(ctx context.Context, r b3.Root, now int) error {
		if r == root || r == longRoot {
			return nil
		}
		if now == readAheadFiles {
			select {
			case <-together:
			default:
				close(together)
			}
		}
		select {
		case <-together:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	api := New(Options{Source: Ahead(s), Keys: names.Addresses{}})
	stream, err := api.Get(ctx, root.String())
	if err != nil {
		t.Fatal(err)
	}
	got, err := entries(stream)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d files, %v", len(got), err)
	}
	if s.most > readAheadFiles+1 { // and the walk
		t.Errorf("%d were opened at once", s.most)
	}
	if s.opened[longRoot] != 1 {
		t.Errorf("the long file was opened %d times", s.opened[longRoot])
	}

	roots := make([]b3.Root, files)
	for i, c := range want {
		roots[i] = b3.Sum([]byte(c))
	}
	if stream, err = api.Files(ctx, roots); err != nil {
		t.Fatal(err)
	}
	if got, err = entries(stream); err != nil || !slices.Equal(got, want) {
		t.Errorf("by address: %d files, %v", len(got), err)
	}
}

// TestAheadFails: what comes before a file that fails comes, and the error is the
// first in order, whichever was seen first.
func TestAheadFails(t *testing.T) {
	t.Parallel()
	want := contents(30, -1)
	s := &shelf{}
	root := s.tree(t, want...)
	late := make(chan struct{})
	s.before = func(_ context.Context, r b3.Root, _ int) error {
		switch r {
		case b3.Sum([]byte(want[7])):
			<-late
			return status.Errorf(status.Corrupt, "the seventh")
		case b3.Sum([]byte(want[9])):
			defer close(late)
			return status.Errorf(status.Upstream, "the ninth")
		}
		return nil
	}
	api := New(Options{Source: Ahead(s), Keys: names.Addresses{}})
	stream, err := api.Get(t.Context(), root.String())
	if err != nil {
		t.Fatal(err)
	}
	got, err := entries(stream)
	if status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), "the seventh") ||
		!slices.Equal(got, want[:7]) {
		t.Errorf("%d files: %v", len(got), err)
	}
}

// TestAheadRefused: a gateway that serves one request at a time gives a directory
// as it did when one at a time was asked for.
func TestAheadRefused(t *testing.T) {
	t.Parallel()
	want := contents(3*sequentialFiles, 5)
	s := &shelf{}
	root := s.tree(t, want...)
	var mu sync.Mutex
	refused := 0
	s.before = func(ctx context.Context, r b3.Root, now int) error {
		if now == 1 || r == root {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		refused++
		return status.Errorf(status.Busy, "one at a time")
	}
	api := New(Options{Source: Ahead(s), Keys: names.Addresses{}})
	stream, err := api.Get(t.Context(), root.String())
	if err != nil {
		t.Fatal(err)
	}
	got, err := entries(stream)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%d files of %d, %d refused: %v", len(got), len(want), refused, err)
	}
}

// TestUpdateGoesOn: an update that was cut short is taken up by the next one, which
// asks for no file that is there.
func TestUpdateGoesOn(t *testing.T) {
	t.Parallel()
	want := contents(60, 50)
	s := &shelf{}
	root := s.tree(t, want...)
	s.before = func(_ context.Context, r b3.Root, _ int) error {
		if r == b3.Sum([]byte(want[40])) {
			return status.Errorf(status.TransportDown, "cut")
		}
		return nil
	}
	out := filepath.Join(t.TempDir(), "out")
	update := func() (files.UpdateStats, error) {
		api := New(Options{Source: Ahead(s), Keys: names.Addresses{}})
		_, stats, err := files.Update(t.Context(), api, root.String(), out, files.UpdateOptions{}, nil)
		return stats, err
	}
	if stats, err := update(); status.Of(err) != status.TransportDown || stats.Written != 40 {
		t.Fatalf("%+v, %v", stats, err)
	}
	clear(s.opened)
	s.before = nil
	if stats, err := update(); err != nil || stats.Kept != 40 || stats.Written != 20 {
		t.Fatalf("%+v, %v", stats, err)
	}
	for i, c := range want {
		if n := s.opened[b3.Sum([]byte(c))]; i < 40 && n > 0 || i >= 40 && n == 0 {
			t.Errorf("file %d was asked for %d times", i, n)
		}
		if p, err := os.ReadFile(filepath.Join(out, fmt.Sprintf("f%03d", i))); err != nil || string(p) != c {
			t.Errorf("file %d: %d bytes, %v", i, len(p), err)
		}
	}
}
