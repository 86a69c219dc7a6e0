package members

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"allium/protocols/capability"
	"allium/store/cluster/plan"
)

// TestDraining: others hear soon that a member hands its copies over, and that it does not any more. A restart changes
// neither, and a file that cannot be read counts as one that says so.
func TestDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newNet()
		ring := newRing(t, capability.Ring{})
		cfg := NewConfig(plan.DefaultParams())
		a := w.start(t, ring, cfg)
		cfg.File = filepath.Join(t.TempDir(), "draining")
		b := w.start(t, ring, cfg)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := func(draining bool) {
			t.Helper()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			for _, s := range []*Service{a, b} {
				if m, ok := s.View().Member(plan.ID(b.self)); !ok || m.Draining != draining {
					t.Errorf("the member is %+v, %t", m, ok)
				}
			}
			again, err := New(cfg, b.deps)
			if err != nil {
				t.Fatal(err)
			}
			if got := again.Draining(); !got.Equal(b.Draining()) || got.IsZero() == draining {
				t.Errorf("after a restart it drains since %s, before since %s", got, b.Draining())
			}
		}
		want(false)
		since, err := b.Drain()
		if err != nil || !since.Equal(b.Draining()) {
			t.Errorf("it drains since %s, %v", since, err)
		}
		want(true)
		if again, err := b.Drain(); err != nil || !again.Equal(since) {
			t.Errorf("once more: since %s, %v", again, err)
		}
		for range 2 {
			if err := b.StopDraining(); err != nil {
				t.Fatal(err)
			}
		}
		want(false)
		for _, text := range []string{"", "yesterday", time.Now().Add(time.Hour).Format(time.RFC3339)} {
			if err := os.WriteFile(cfg.File, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if again, err := New(cfg, b.deps); err != nil || !again.Draining().Equal(time.Now()) {
				t.Errorf("with %q it drains since %s, %v", text, again.Draining(), err)
			}
		}
		cfg.File = filepath.Join(t.TempDir(), "none", "draining")
		if again, err := New(cfg, b.deps); err != nil {
			t.Error(err)
		} else if _, err := again.Drain(); err == nil {
			t.Error("it drains although that cannot be kept")
		}
	})
}
