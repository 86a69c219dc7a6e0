package admission

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"allium/store/meta"
)

// TestControl: operations begin between Open and Drain, and Drain waits for them.
func TestControl(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := New()
		if err := c.Enter(); !errors.Is(err, ErrNotReady) || c.Opened() {
			t.Fatalf("before Open: %v", err)
		}
		c.Open()
		if err := c.Enter(); err != nil {
			t.Fatal(err)
		}
		over, end := context.WithCancel(t.Context())
		end()
		if err := c.EnterContext(over); !errors.Is(err, context.Canceled) {
			t.Fatalf("with a context that ended: %v", err)
		}
		r := c.Reader(t.Context(), strings.NewReader("bytes"))
		if n, err := r.Read(make([]byte, 2)); n != 2 || err != nil {
			t.Fatalf("read %d, %v", n, err)
		}
		drained := make(chan struct{})
		go func() { c.Drain(); close(drained) }()
		synctest.Wait()
		select {
		case <-drained:
			t.Fatal("Drain did not wait")
		case <-c.Stopping():
		}
		if _, err := r.Read(make([]byte, 2)); !errors.Is(err, meta.ErrDraining) {
			t.Errorf("a reader goes on: %v", err)
		}
		if err := c.EnterContext(t.Context()); !errors.Is(err, meta.ErrDraining) || !c.Draining() || !c.Opened() {
			t.Errorf("after Drain began: %v", err)
		}
		c.Leave()
		<-drained
	})
}
