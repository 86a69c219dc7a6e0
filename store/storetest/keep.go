package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
)

func testDeleteAndLease(t *testing.T, s *store.Store) {
	for n, size := range []int{10, 3 * b3.GroupSize} {
		p := Bytes(uint64(size), size)
		root := Put(t, s, p)
		one, two := s.Lease(root), s.Lease(root, b3.Sum([]byte("absent")))
		Want(t, s.Delete(t.Context(), root), status.Conflict)
		one()
		one() // idempotent: the second lease still holds
		Want(t, s.Delete(t.Context(), root), status.Conflict)
		two()
		o, err := s.Open(t.Context(), root)
		if err != nil {
			t.Fatal(err)
		}
		Want(t, s.Delete(t.Context(), root), status.Conflict)
		o.Close()
		o.Close()
		if err := s.Delete(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		_, err = s.Open(t.Context(), root)
		Want(t, err, status.NotFound)
		wantCount(t, s, n)
		Put(t, s, p)
		Holds(t, s, p)
	}
	if st := s.Stats(); st.Leases != 0 || st.Objects != 2 || st.Bytes != 10+3*b3.GroupSize {
		t.Errorf("stats say %+v", st)
	}
}

func testDeleteWhileReading(t *testing.T, s *store.Store) {
	for _, size := range []int{1000, 2*b3.GroupSize + 5} {
		p := Bytes(uint64(size), size)
		root := b3.Sum(p)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					o, err := s.Open(t.Context(), root)
					if err != nil {
						if status.Of(err) != status.NotFound {
							t.Errorf("open: %v", err)
						}
						continue
					}
					got := make([]byte, size)
					if _, err := o.Reader().ReadAt(got, 0); err != nil &&
						!errors.Is(err, io.EOF) || !bytes.Equal(got, p) {
						t.Errorf("read: %v", err)
					}
					o.Close()
				}
			})
		}
		for range 30 {
			Put(t, s, p)
			if err := s.Delete(t.Context(), root); err != nil {
				Want(t, err, status.Conflict)
			}
		}
		cancel()
		wg.Wait()
		Put(t, s, p)
		if err := s.Delete(t.Context(), root); err != nil {
			t.Fatal(err)
		}
		wantCount(t, s, 0)
	}
}

// testDeleteWhilePutting: a caller that holds a lease when its put returns finds the object,
// although another goroutine deletes it all the time.
func testDeleteWhilePutting(t *testing.T, s *store.Store) {
	for _, size := range []int{1000, 2 * b3.GroupSize} {
		p := Bytes(uint64(size), size)
		root := b3.Sum(p)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				if o := status.Of(s.Delete(t.Context(), root)); o != status.OK &&
					o != status.Conflict && o != status.NotFound {
					t.Errorf("delete: %s", o)
				}
			}
		})
		for range 25 {
			release := s.Lease(root)
			Put(t, s, p)
			Holds(t, s, p)
			release()
		}
		cancel()
		wg.Wait()
	}
}

func testPins(t *testing.T, s *store.Store) {
	root := Put(t, s, []byte("kept"))
	other := Put(t, s, []byte("not kept"))
	for _, label := range []string{"", "a", "site/ä"} {
		if err := s.Pin(t.Context(), root, store.PinOptions{Label: label}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Pin(t.Context(), root, store.PinOptions{Label: "a", Recursive: true}); err != nil {
		t.Fatal(err)
	}
	var got []meta.Pin
	for p, err := range s.Pins(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p)
	}
	if len(got) != 3 || got[0].Label != "" || got[1].Label != "a" || !got[1].Recursive || got[2].Label != "site/ä" ||
		got[0].Created.IsZero() {
		t.Fatalf("pins are %+v", got)
	}
	Want(t, s.Delete(t.Context(), root), status.Conflict)
	wantPinned(t, s, root, "pinned")
	wantPinned(t, s, other, "")
	for _, label := range []string{"site/ä", "", "a"} {
		Want(t, s.Delete(t.Context(), root), status.Conflict)
		if err := s.Unpin(t.Context(), root, label); err != nil {
			t.Fatal(err)
		}
		Want(t, s.Unpin(t.Context(), root, label), status.NotFound)
	}
	if err := s.Delete(t.Context(), root); err != nil {
		t.Fatal(err)
	}
}

func testPinLabels(t *testing.T, s *store.Store) {
	root := Put(t, s, []byte("kept"))
	for _, label := range []string{strings.Repeat("x", meta.MaxLabel+1), "\xff", "a\x00b", "a\nb", "\x7f"} {
		Want(t, s.Pin(t.Context(), root, store.PinOptions{Label: label}), status.BadRequest)
	}
	const many = 300 // several pages
	for i := range many {
		label := fmt.Sprintf("%03d%s", i, strings.Repeat("l", (meta.MaxLabel-3)*(i%2)))
		if err := s.Pin(t.Context(), root, store.PinOptions{Label: label}); err != nil {
			t.Fatal(err)
		}
	}
	last, n := "", 0
	for p, err := range s.Pins(t.Context()) {
		if err != nil || p.Label <= last {
			t.Fatalf("%q follows %q: %v", p.Label, last, err)
		}
		last = p.Label
		n++
	}
	if n != many {
		t.Fatalf("%d pins are listed, want %d", n, many)
	}
}

// wantPinned fails the test unless a pin keeps root and the pin's description contains why. An
// empty why means that no pin keeps root.
func wantPinned(t *testing.T, s *store.Store, root b3.Root, why string) {
	t.Helper()
	pinned, got, err := s.Pinned(t.Context(), root)
	if err != nil || pinned != (why != "") || !strings.Contains(got, why) {
		t.Fatalf("pinned says %t, %q, %v; want %q", pinned, got, err, why)
	}
}

func testRecursivePins(t *testing.T, s *store.Store) {
	file := Put(t, s, []byte("a file"))
	deep := Put(t, s, Bytes(1, 2*b3.GroupSize))
	inner := directory(t, s, map[string]b3.Root{"deep": deep}, nil)
	outer := directory(t, s, map[string]b3.Root{"file": file}, map[string]b3.Root{"inner": inner})
	lone := Put(t, s, []byte("of no directory"))
	if err := s.Pin(t.Context(), outer, store.PinOptions{Label: "site"}); err != nil {
		t.Fatal(err)
	}
	wantPinned(t, s, outer, "site")
	wantPinned(t, s, file, "")
	if err := s.Pin(t.Context(), outer, store.PinOptions{Label: "site", Recursive: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Pin(t.Context(), lone, store.PinOptions{Recursive: true, Label: "a file"}); err != nil {
		t.Fatal(err)
	}
	for _, root := range []b3.Root{file, deep, inner} {
		wantPinned(t, s, root, outer.String())
		Want(t, s.Delete(t.Context(), root), status.Conflict)
	}
	if err := s.Unpin(t.Context(), outer, "site"); err != nil {
		t.Fatal(err)
	}
	for _, root := range []b3.Root{file, inner, outer, deep} {
		if err := s.Delete(t.Context(), root); err != nil {
			t.Fatal(err)
		}
	}
	wantPinned(t, s, lone, "a file")
}

// directory stores the manifest of a directory whose files and subdirectories the store has,
// and returns its address. Entries are sorted by name, files first.
func directory(t *testing.T, s *store.Store, files, dirs map[string]b3.Root) b3.Root {
	t.Helper()
	b := manifest.NewBuilder(func(ctx context.Context, p []byte) (b3.Root, error) {
		info, err := s.PutBytes(ctx, p, store.PutOptions{})
		return info.Root, err
	})
	add := func(kind manifest.EntryKind, entries map[string]b3.Root) {
		for _, name := range slices.Sorted(maps.Keys(entries)) {
			info, err := s.Stat(t.Context(), entries[name])
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Add(t.Context(),
				manifest.Entry{Name: name, Kind: kind, Root: info.Root, Size: info.Size}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(manifest.File, files)
	add(manifest.Directory, dirs)
	root, _, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}
