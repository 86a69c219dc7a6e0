package tree

import (
	"bytes"
	"context"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// pendingStore holds one object, which it shows after a flush.
type pendingStore struct {
	Local
	root    b3.Root
	data    []byte
	flushed bool
}

func (s *pendingStore) Open(_ context.Context, root b3.Root) (b3.Object, error) {
	if root != s.root || !s.flushed {
		return nil, status.Errorf(status.NotFound, "not here")
	}
	return s, nil
}

func (s *pendingStore) Flush(context.Context) error {
	s.flushed = true
	return nil
}

func (s *pendingStore) Size() int64 { return int64(len(s.data)) }

func (s *pendingStore) Reader() *b3.Reader {
	return b3.NewReader(s.root, s.Size(), b3.FileSource(bytes.NewReader(s.data), nil, s.Size()))
}

func (s *pendingStore) Failed(err error) error { return err }
func (s *pendingStore) Close() error           { return nil }

// Entries held in memory stay within their bound; the directories let go of are
// read again, also when they were put and not flushed.
func TestEntriesHeld(t *testing.T) {
	t.Parallel()
	tr := &walk{tree: &tree{f: &Fetcher{}, root: b3.Sum(nil)}}
	refs := make([]manifest.Ref, 3000)
	for i := range 500 {
		tr.unread.push(cursor{root: b3.Sum([]byte{byte(i), byte(i >> 8)}), refs: refs})
		held := 0
		for _, c := range tr.unread.dirs {
			held += len(c.refs)
		}
		if held != tr.unread.refs || held > maxRefs {
			t.Fatalf("%d entries are held, %d counted, %d allowed", held, tr.unread.refs, maxRefs)
		}
	}
	if tr.unread.dirs[len(tr.unread.dirs)-1].refs == nil {
		t.Error("the directory read next was let go")
	}
	leaf := b3.Sum([]byte("leaf"))
	pending := &pendingStore{}
	b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) {
		pending.data, pending.root = bytes.Clone(p), b3.Sum(p)
		return pending.root, nil
	})
	if err := b.Add(t.Context(), manifest.Entry{Name: "x", Root: leaf, Size: 4}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.f.local = pending
	if got, err := tr.reread(t.Context(), pending.root); err != nil || len(got) != 1 || got[0].Root != leaf {
		t.Errorf("read again: %v, %v", got, err)
	}
}
