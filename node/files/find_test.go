package files

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// countedStore is a store in RAM that counts what it is asked.
type countedStore struct {
	mu      sync.Mutex
	objects map[b3.Root]int64
	finds   int
	asked   int
	puts    int
}

func (s *countedStore) Find(_ context.Context, roots []b3.Root) ([]Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finds++
	s.asked += len(roots)
	found := make([]Object, len(roots))
	for i, root := range roots {
		if size, ok := s.objects[root]; ok {
			found[i] = Object{Root: root, Size: size}
		}
	}
	return found, nil
}

func (s *countedStore) Flush(context.Context) error { return nil }

func (s *countedStore) Put(ctx context.Context, r io.Reader, _ int64) (Object, error) {
	p, err := io.ReadAll(r)
	if err != nil {
		return Object{}, err
	}
	return s.PutBytes(ctx, p)
}

func (s *countedStore) PutBytes(_ context.Context, p []byte) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	root := b3.Sum(p)
	_, there := s.objects[root]
	s.objects[root] = int64(len(p))
	return Object{Root: root, Size: int64(len(p)), New: !there}, nil
}

// TestAddAsksTogether: files whose addresses are known are asked for many at a
// time, once each; those that the store lacks are read, in between.
func TestAddAsksTogether(t *testing.T) {
	t.Parallel()
	const n, lost = 1000, 7 // every lost-th is not in the store
	content := func(i int) []byte { return fmt.Appendf(nil, "file %d", i) }
	items := func(open bool) Items {
		return func(yield func(Item, error) bool) {
			if !yield(Item{Path: "top", Kind: manifest.Directory}, nil) {
				return
			}
			for i := range n {
				it := Item{Path: fmt.Sprintf("top/%04d", i), Kind: manifest.File}
				if i%100 != 99 { // the others are new
					it.Root = b3.Sum(content(i))
				}
				if open || it.Root.IsZero() {
					it.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content(i))), nil }
				}
				if !yield(it, nil) {
					return
				}
			}
		}
	}
	st := &countedStore{objects: map[b3.Root]int64{}}
	add := func(open bool) (added api.Added, err error) {
		st.finds, st.asked, st.puts = 0, 0, 0
		err = Add(t.Context(), st, items(open), Reports{}, func(_ context.Context, a api.Added) error {
			added = a
			return nil
		})
		return added, err
	}
	read := int64(0)
	for i := range n {
		if i%lost == 0 || i%100 == 99 {
			read++
		}
		if i%lost != 0 {
			p := content(i)
			st.objects[b3.Sum(p)] = int64(len(p))
		}
	}
	added, err := add(true)
	if err != nil || added.Files != n {
		t.Fatalf("%+v, %v", added, err)
	}
	// The reader submits what it has when the assembler is behind, which depends
	// on the scheduler.
	if st.asked != n-n/100 || st.finds > st.asked/4 {
		t.Errorf("asked for %d of %d files with %d look-ups", st.asked, n-n/100, st.finds)
	}
	if added.Hashed != read {
		t.Errorf("%d files were read, want %d", added.Hashed, read)
	}
	again, err := add(false)
	if err != nil || again.Root != added.Root || again.Hashed != n/100 {
		t.Fatalf("again: %+v, %v", again, err)
	}
	delete(st.objects, b3.Sum(content(500)))
	if _, err := add(false); status.Of(err) != status.Conflict || !hasDetail(err, missingReference) {
		t.Errorf("an address without an object and without bytes is %v", err)
	}
}

// slowStore is a countedStore that stores small files when release is closed.
type slowStore struct {
	countedStore
	release chan struct{}
}

func (s *slowStore) PutBytes(ctx context.Context, p []byte) (Object, error) {
	<-s.release
	return s.countedStore.PutBytes(ctx, p)
}

// TestBodiesAreBounded: of an archive of small files each worker has one in memory, and the reader one,
// while the store is slow; and all arrive.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		yielded := 0
		items := func(yield func(Item, error) bool) {
			if !yield(Item{Path: "top", Kind: manifest.Directory}, nil) {
				return
			}
			for i := range n {
				yielded++
				body := fmt.Appendf(nil, "file %d", i)
				it := Item{Path: fmt.Sprintf("top/%04d", i), Kind: manifest.File,
					Body: bytes.NewReader(body), Size: int64(len(body))}
				if !yield(it, nil) {
					return
				}
			}
		}
		st := &slowStore{countedStore{objects: map[b3.Root]int64{}}, make(chan struct{})}
		done := make(chan error, 1)
		go func() {
			done <- Add(t.Context(), st, items, Reports{}, func(context.Context, api.Added) error { return nil })
		}()
		synctest.Wait()
		if yielded > addWorkers+1 {
			t.Errorf("%d files were taken from the archive while none was stored, want at most %d", yielded,
				addWorkers+1)
		}
		close(st.release)
		if err := <-done; err != nil || st.puts != n+1 {
			t.Errorf("%d were stored, want %d files and a directory: %v", st.puts, n, err)
		}
	})
}
