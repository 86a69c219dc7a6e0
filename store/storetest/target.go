package storetest

import (
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
	"allium/store"
	"allium/store/meta"
)

// targetOf returns the target of the pin of root with the label a, and whether the pin is listed, or
// the record of its removal is.
func targetOf(t *testing.T, s *store.Store, root b3.Root) (target meta.Target, pinned, removed bool) {
	t.Helper()
	for p, err := range s.Pins(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Root == root && p.Label == "a" {
			target, pinned = p.Target, true
		}
	}
	for p, err := range s.RemovedTargets(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Root == root && p.Label == "a" {
			if pinned || p.Target.Wants() {
				t.Fatalf("%+v is listed as removed", p)
			}
			target, removed = p.Target, true
		}
	}
	return target, pinned, removed
}

// testTargets: a pin keeps the target with the highest number, in whatever order they arrive. A
// removed one leaves a record that keeps nothing.
func testTargets(t *testing.T, s *store.Store) {
	root := Put(t, s, []byte("kept"))
	Put(t, s, []byte("another"))
	pin := func(target meta.Target) error {
		return s.Pin(t.Context(), root, store.PinOptions{Label: "a", Target: target})
	}
	is := func(want meta.Target, pinned, removed bool) {
		t.Helper()
		got, p, r := targetOf(t, s, root)
		if want.Seq == 0 {
			want.Seq = got.Seq
		}
		if got != want || p != pinned || r != removed {
			t.Fatalf("the target is %+v, pinned %t, removed %t; want %+v, %t, %t", got, p, r, want, pinned, removed)
		}
	}
	set := func(target, want meta.Target) {
		t.Helper()
		got, err := s.SetTarget(t.Context(), root, "a", target)
		if want.Seq == 0 {
			want.Seq = got.Seq
		}
		if err != nil || got != want {
			t.Fatalf("SetTarget returned %+v, %v; want %+v", got, err, want)
		}
	}
	for _, bad := range []meta.Target{
		{Copies: -1}, {Copies: meta.MaxCopies + 1}, {Copies: 2, Data: 4, Parity: 2}, {Data: 4}, {Parity: 2},
		{Data: 60, Parity: 5},
	} {
		bad.Seq = 1
		Want(t, pin(bad), status.BadRequest)
	}
	_, err := s.SetTarget(t.Context(), root, "a", meta.Target{Copies: 2})
	Want(t, err, status.NotFound)
	if err := pin(meta.Target{Copies: 3}); err != nil {
		t.Fatal(err)
	}
	is(meta.Target{Copies: 3}, true, false)
	first, _, _ := targetOf(t, s, root)
	set(meta.Target{Copies: 3}, first)         // says what the pin says
	if err := pin(meta.Target{}); err != nil { // says nothing of a target
		t.Fatal(err)
	}
	is(first, true, false)
	later := meta.Target{Data: 6, Parity: 3, Seq: first.Seq + 10}
	set(later, later)
	set(meta.Target{Copies: 5, Seq: later.Seq - 1}, later) // arrives late
	if err := pin(meta.Target{Copies: 5, Seq: later.Seq}); err != nil {
		t.Fatal(err)
	}
	is(later, true, false)
	set(meta.Target{}, meta.Target{})
	is(meta.Target{}, true, false)
	wantPinned(t, s, root, "a")
	set(meta.Target{Copies: 2}, meta.Target{Copies: 2})

	if err := s.Unpin(t.Context(), root, "a"); err != nil {
		t.Fatal(err)
	}
	is(meta.Target{}, false, true)
	wantPinned(t, s, root, "")
	Want(t, s.Unpin(t.Context(), root, "a"), status.NotFound)
	_, err = s.SetTarget(t.Context(), root, "a", meta.Target{Copies: 2})
	Want(t, err, status.NotFound)
	if err := s.Delete(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	removal, _, _ := targetOf(t, s, root)
	Put(t, s, []byte("kept"))
	if err := pin(meta.Target{Copies: 2}); err != nil {
		t.Fatal(err)
	}
	is(meta.Target{Copies: 2}, true, false)
	if now, _, _ := targetOf(t, s, root); !now.Replaces(removal) {
		t.Fatalf("%+v follows the removal %+v", now, removal)
	}
	Want(t, s.ForgetTarget(t.Context(), root, "a"), status.NotFound)
	if err := s.Unpin(t.Context(), root, "a"); err != nil {
		t.Fatal(err)
	}
	if err := s.ForgetTarget(t.Context(), root, "a"); err != nil {
		t.Fatal(err)
	}
	is(meta.Target{}, false, false)
	if err := s.Delete(t.Context(), root); err != nil {
		t.Fatal(err)
	}
}
