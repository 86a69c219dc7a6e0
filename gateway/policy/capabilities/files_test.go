package capabilities

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"allium/internal/testkit"
	"allium/protocols/capability"
	"allium/protocols/status"
)

func aKey(t *testing.T) crypto.PrivKey {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func inAnHour(t *testing.T) capability.Caveat {
	t.Helper()
	c, err := capability.ParseCaveat("exp < " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mintIn(t *testing.T, home string) string {
	t.Helper()
	token, err := Open(home).Mint(t.Context(), inAnHour(t))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func verifierOf(t *testing.T, home string) (*Verifier, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	c, err := New(home, aKey(t), slog.New(slog.NewTextHandler(log, nil)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

func (c *Verifier) refusal(t *testing.T, token string) string {
	t.Helper()
	_, err := c.Verify(t.Context(), token, capability.Request{Op: capability.Pin})
	return capability.RefusalOf(err)
}

// TestCapabilityFiles: the files are made on first use, for their owner alone,
// and change as a whole.
func TestCapabilityFiles(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	files := Open(home)
	if r, err := files.Ring(); err != nil || len(r.Keys()) != 0 {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("a look made the home directory")
	}
	first := mintIn(t, home)
	if r, err := files.Ring(); err != nil || len(r.Keys()) != 1 {
		t.Fatalf("%v, %v", r, err)
	}
	if r, err := files.Rotate(t.Context()); err != nil || len(r.Keys()) != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := files.Retire(t.Context(), 2); status.Of(err) != status.Conflict {
		t.Errorf("%v", err)
	}
	if r, err := files.Retire(t.Context(), 1); err != nil || len(r.Keys()) != 1 || r.Keys()[0].ID != 2 {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := files.Retire(t.Context(), 1); status.Of(err) != status.NotFound {
		t.Errorf("%v", err)
	}
	what, err := capability.RevokeToken(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Revoke(t.Context(), what); err != nil {
		t.Fatal(err)
	}
	if r, err := files.Revoked(); err != nil || r.Len() != 1 {
		t.Errorf("%v", err)
	}
	names, err := os.ReadDir(home)
	if err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
	for _, name := range []string{RingFile, revokedFile} {
		if info, err := os.Stat(filepath.Join(home, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestCapabilityFilesTogether: commands that change the files at once lose
// nothing of each other, and mint with one ring.
func TestCapabilityFilesTogether(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	files := Open(home)
	const n = 8
	tokens := make([]string, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			tokens[i] = mintIn(t, home)
			if err := files.Revoke(t.Context(), capability.RevokeKey(uint32(100+i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	ring, err := files.Ring()
	if err != nil || len(ring.Keys()) != 1 {
		t.Fatalf("%v, %v", ring, err)
	}
	for _, token := range tokens {
		if _, err := ring.Identify(token); err != nil {
			t.Error(err)
		}
	}
	if r, err := files.Revoked(); err != nil || r.Len() != n {
		t.Errorf("%d lines, %v", r.Len(), err)
	}
}

// TestCapabilityFilesRefused: files that others could have read or written, or
// that hold something else, are named with what to do.
func TestCapabilityFilesRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		mode os.FileMode
		text string
		want status.Outcome
	}{
		"ring of others":        {RingFile, 0o644, "", status.Forbidden},
		"ring of the group":     {RingFile, 0o640, "", status.Forbidden},
		"ring of something":     {RingFile, 0o600, "x\n", status.Corrupt},
		"empty ring":            {RingFile, 0o600, "\n", status.Corrupt},
		"list others can write": {revokedFile, 0o622, "", status.Forbidden},
		"list of something":     {revokedFile, 0o600, "x\n", status.Corrupt},
	} {
		home := t.TempDir()
		mintIn(t, home)
		if err := Open(home).Revoke(t.Context(), capability.RevokeKey(9)); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(home, c.file)
		if c.text != "" {
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(file, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := New(home, aKey(t), slog.New(slog.DiscardHandler), nil, nil)
		if status.Of(err) != c.want || !bytes.Contains([]byte(err.Error()), []byte(file)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, RingFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(home).Ring(); status.Of(err) != status.Corrupt {
		t.Errorf("a directory: %v", err)
	}
}

// running follows the files until stop.
func (c *Verifier) running(t *testing.T) (stop func()) {
	t.Helper()
	return testkit.Start(t, c.Run)
}

// TestCapabilityReload: a running node takes up what changes, and keeps what it
// has when a file is bad, which it says once.
func TestCapabilityReload(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, log := verifierOf(t, home)
		stop := c.running(t)
		poll := func() { time.Sleep(ringEvery); synctest.Wait() }
		is := func(token, want, when string) {
			t.Helper()
			if got := c.refusal(t, token); got != want {
				t.Errorf("%s it is %s, want %s", when, got, want)
			}
		}
		first := mintIn(t, home)
		is(first, "ok", "just minted")
		what, err := capability.RevokeToken(first)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.files.Revoke(t.Context(), what); err != nil {
			t.Fatal(err)
		}
		poll()
		is(first, string(capability.Revoked), "revoked")
		second := mintIn(t, home)

		ring := filepath.Join(home, RingFile)
		good, err := os.ReadFile(ring)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ring, []byte("nonsense\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			poll()
		}
		if err := c.Reload(t.Context()); status.Of(err) != status.Corrupt {
			t.Errorf("%v", err)
		}
		is(second, "ok", "with a bad ring")
		is(first, string(capability.Revoked), "with a bad ring, revoked before,")
		if err := os.WriteFile(ring, good, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := c.Reload(t.Context()); err != nil {
			t.Error(err)
		}
		if err := os.Remove(ring); err != nil {
			t.Fatal(err)
		}
		poll()
		is(second, string(capability.UnknownKey), "without a ring")
		stop()

		if n := bytes.Count(log.Bytes(), []byte("level=WARN")); n != 3 {
			t.Errorf("%d warnings: %s", n, log)
		}
		for _, token := range []string{first, second} {
			if bytes.Contains(log.Bytes(), []byte(token[40:])) {
				t.Error("the log has a token")
			}
		}
		if got := testutil.ToFloat64(c.m.reloads.WithLabelValues("ok")); got != 5 {
			t.Errorf("%v reads were ok: want the first, the new ring, the revocation, the reload and the missing ring",
				got)
		}
		if got := testutil.ToFloat64(c.m.reloads.WithLabelValues("failed")); got != 2 {
			t.Errorf("%v reads failed: want the poll and the reload", got)
		}
		if got := testutil.ToFloat64(c.m.checks.WithLabelValues(string(capability.Revoked))); got != 2 {
			t.Errorf("%v checks found it revoked", got)
		}
	})
}

// TestCapabilityHurry: what was just minted is good for all that show it at
// once; strangers cannot make the node read its files again and again; and the
// poll sees a change.
func TestCapabilityHurry(t *testing.T) {
	t.Parallel()
	home, elsewhere := t.TempDir(), t.TempDir()
	stranger := mintIn(t, elsewhere)
	synctest.Test(t, func(t *testing.T) {
		c, _ := verifierOf(t, home)
		defer c.running(t)()
		unknown := string(capability.UnknownKey)
		if got := c.refusal(t, stranger); got != unknown {
			t.Errorf("a stranger's is %s", got)
		}
		token := mintIn(t, home)
		if got := c.refusal(t, token); got != unknown {
			t.Errorf("it is %s though somebody looked just now", got)
		}
		time.Sleep(ringHurry)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if got := c.refusal(t, token); got != "ok" {
					t.Errorf("just minted it is %s", got)
				}
			})
		}
		all.Wait()
		if _, err := c.files.Rotate(t.Context()); err != nil {
			t.Fatal(err)
		}
		next := mintIn(t, home)
		if got := c.refusal(t, next); got != unknown {
			t.Errorf("of the next key it is %s though somebody looked just now", got)
		}
		time.Sleep(ringEvery - ringHurry) // the poll, and no hurry since
		synctest.Wait()
		if got := testutil.ToFloat64(c.m.keys); got != 2 {
			t.Errorf("after a poll there are %v keys", got)
		}
	})
}
