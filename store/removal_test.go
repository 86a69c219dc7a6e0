package store

import (
	"context"
	"testing"
	"testing/synctest"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestRemovalUnderWay: while an object is being removed it is not there, and
// whoever wants to keep it waits for the end of the removal.
func TestRemovalUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Backend = BackendMemory
		s, err := New(cfg, Deps{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
		<-ready
		for _, p := range [][]byte{[]byte("small"), make([]byte, 2*b3.GroupSize)} {
			info, err := s.PutBytes(t.Context(), p, PutOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for name, keep := range map[string]func(context.Context) error{
				"put": func(ctx context.Context) error {
					_, err := s.PutBytes(ctx, p, PutOptions{})
					return err
				},
				"pin": func(ctx context.Context) error { return s.Pin(ctx, info.Root, PinOptions{}) },
			} {
				over, err := s.leases.Remove(info.Root)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := s.Open(t.Context(), info.Root); status.Of(err) != status.NotFound {
					t.Fatalf("open says %v", err)
				}
				if o := status.Of(s.Delete(t.Context(), info.Root)); o != status.Conflict {
					t.Fatalf("delete says %s", o)
				}
				kept := make(chan error, 1)
				go func() { kept <- keep(t.Context()) }()
				hurried, hurry := context.WithCancel(t.Context())
				left := make(chan error, 1)
				go func() { left <- keep(hurried) }()
				synctest.Wait()
				hurry()
				if err := <-left; status.Of(err) != status.Canceled {
					t.Fatalf("%s did not wait: %v", name, err)
				}
				select {
				case err := <-kept:
					t.Fatalf("%s did not wait: %v", name, err)
				default:
				}
				over()
				if err := <-kept; err != nil {
					t.Fatalf("%s after the removal: %v", name, err)
				}
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}
