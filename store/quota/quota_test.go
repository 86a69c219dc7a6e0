package quota

import (
	"context"
	"errors"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
	"allium/store/meta"
)

// pinned is a backend that counts the calls that set pins.
type pinned struct {
	meta.Backend
	calls, pins int
	err         error
}

func (b *pinned) SetPins(pins []meta.Pin) error {
	if b.err != nil {
		return b.err
	}
	b.calls++
	b.pins += len(pins)
	return nil
}

// TestSetPinsTogether: pins that are counted are set with one call of the backend, those that the quota refuses are
// not, and one that comes twice counts once. Nothing counts that the backend did not set.
func TestSetPinsTogether(t *testing.T) {
	t.Parallel()
	b := &pinned{}
	q, err := New([]string{"x=1000B"}, Deps{
		Backend: b, Node: func(context.Context, b3.Root) (*manifest.Node, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	list := func(n int, label string) (pins []Pinning) {
		for i := range n {
			pins = append(pins, Pinning{Pin: meta.Pin{Root: b3.Root{1, byte(i)}, Label: label}, Size: 10})
		}
		return pins
	}
	pins := append(list(98, "x"), list(3, "x")...) // 98 of 10 bytes, three of them twice
	pins = append(pins, list(101, "x")[98:]...)    // and three more, of which two fit
	pins = append(pins, list(50, "y")...)          // without a quota
	for i, err := range q.SetPins(t.Context(), pins) {
		want := status.OK
		if i == 98+3+2 {
			want = status.Quota
		}
		if status.Of(err) != want {
			t.Errorf("pin %d: %v, want %s", i, err, want)
		}
	}
	if b.calls != 1 || b.pins != len(pins)-1 {
		t.Errorf("%d pins in %d calls of the backend, want %d in one", b.pins, b.calls, len(pins)-1)
	}
	if used := q.Usage("x"); used != (meta.Count{Objects: 100, Bytes: 1000}) {
		t.Errorf("the label holds %+v", used)
	}
	b.err = errors.New("the disk is full")
	for i, err := range q.SetPins(t.Context(), list(5, "x")) {
		if !errors.Is(err, b.err) {
			t.Errorf("pin %d: %v", i, err)
		}
	}
	if used := q.Usage("x"); used != (meta.Count{Objects: 100, Bytes: 1000}) {
		t.Errorf("after a failure the label holds %+v", used)
	}
}
