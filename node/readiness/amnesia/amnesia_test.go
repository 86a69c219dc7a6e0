package amnesia

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

// forgetful returns the amnesia of a micronode under guard, and its log.
func forgetful(guard *Guard, requireLock bool) (*Watch, *bytes.Buffer) {
	cfg := config.Default(p2p.Micronode)
	cfg.Amnesia.RequireLock = requireLock
	var log bytes.Buffer
	return New(cfg, guard, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry()), &log
}

// TestUnlockedMemory: one warning that says what to do, or no start.
func TestUnlockedMemory(t *testing.T) {
	t.Parallel()
	refused := errors.New("the system said no")
	for name, c := range map[string]struct {
		store, process error
		locked         bool
	}{
		"locked":              {nil, nil, true},
		"the process is not":  {nil, refused, false},
		"the store is not":    {refused, nil, false},
		"neither of the two ": {refused, refused, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, log := forgetful(&Guard{locked: c.process}, false)
			if err := a.Settle(c.store); err != nil {
				t.Fatal(err)
			}
			if warnings := strings.Count(log.String(), "\n"); c.locked != (warnings == 0) || warnings > 1 {
				t.Errorf("%d lines are logged: %s", warnings, log)
			}
			if !c.locked && (!strings.Contains(log.String(), "ulimit -l") ||
				!strings.Contains(log.String(), refused.Error())) {
				t.Errorf("the warning does not say why or what to do: %s", log)
			}
			if got := testutil.ToFloat64(a.locked) == 1; got != c.locked {
				t.Errorf("the metric says locked: %t", got)
			}
			if got := a.Mode(c.store) == "memory locked"; got != c.locked {
				t.Errorf("/version says %q", a.Mode(c.store))
			}
			strict, _ := forgetful(&Guard{locked: c.process}, true)
			err := strict.Settle(c.store)
			if c.locked != (err == nil) ||
				err != nil && (status.Of(err) != status.Amnesia ||
					!strings.Contains(err.Error(), "amnesia.require_lock") ||
					!strings.Contains(err.Error(), "ulimit -l")) {
				t.Errorf("with require_lock: %v", err)
			}
		})
	}
}

// TestNoAmnesia: without it nothing is checked, whatever the guard would say.
func TestNoAmnesia(t *testing.T) {
	t.Parallel()
	refused := errors.New("no")
	a := New(config.Default(p2p.Desktop),
		&Guard{locked: refused, open: func() ([]string, error) { return []string{"/file"}, nil }},
		slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	a.Look()
	if err := a.Settle(refused); err != nil || a.Mode(refused) != "" || testutil.ToFloat64(a.violations) != 0 {
		t.Errorf("%v, %q, %v violations", err, a.Mode(refused), testutil.ToFloat64(a.violations))
	}
}

// TestJanitorLooksEveryMinute: what is open is counted at every look and logged
// once.
func TestJanitorLooksEveryMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, log := forgetful(&Guard{open: func() ([]string, error) { return []string{"/var/spill"}, nil }}, false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx, func() {}) }()
		time.Sleep(3*lookEvery + time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := testutil.ToFloat64(a.violations); n != 3 {
			t.Errorf("%v violations in three minutes", n)
		}
		if n := strings.Count(log.String(), "/var/spill"); n != 1 {
			t.Errorf("it is logged %d times", n)
		}
	})
}

// TestFilesOpenForWriting finds what this process has open.
func TestFilesOpenForWriting(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the system does not list a process's files")
	}
	name := filepath.Join(t.TempDir(), "file")
	for _, c := range []struct {
		mode int
		want bool
	}{{os.O_WRONLY | os.O_CREATE, true}, {os.O_RDONLY, false}, {os.O_RDWR | os.O_APPEND, true}} {
		f, err := os.OpenFile(name, c.mode, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		files, err := filesOpenForWriting()
		if err != nil || slices.Contains(files, name) != c.want {
			t.Errorf("opened with %#x it is listed: %t, %v", c.mode, !c.want, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if files, err := filesOpenForWriting(); err != nil || slices.Contains(files, name) {
			t.Errorf("it is closed and listed, %v", err)
		}
	}
}
