package node

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/prometheus/client_golang/prometheus/testutil"

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
	token, err := OpenCapabilities(home).Mint(t.Context(), inAnHour(t))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func verifierOf(t *testing.T, home string) (*capabilities, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	c, err := newCapabilities(home, aKey(t), slog.New(slog.NewTextHandler(log, nil)), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

func (c *capabilities) refusal(t *testing.T, token string) string {
	t.Helper()
	_, err := c.Verify(t.Context(), token, capability.Ask{Op: capability.Pin})
	return capability.RefusalOf(err)
}

// TestCapabilityFiles: the files are made on first use, for their owner alone,
// and change as a whole.
func TestCapabilityFiles(t *testing.T) {
	t.Parallel()
	home := filepath.Join(t.TempDir(), "home")
	files := OpenCapabilities(home)
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
	for _, name := range []string{ringFile, revokedFile} {
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
	files := OpenCapabilities(home)
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
		"ring of others":        {ringFile, 0o644, "", status.Forbidden},
		"ring of the group":     {ringFile, 0o640, "", status.Forbidden},
		"ring of something":     {ringFile, 0o600, "x\n", status.Corrupt},
		"empty ring":            {ringFile, 0o600, "\n", status.Corrupt},
		"list others can write": {revokedFile, 0o622, "", status.Forbidden},
		"list of something":     {revokedFile, 0o600, "x\n", status.Corrupt},
	} {
		home := t.TempDir()
		mintIn(t, home)
		if err := OpenCapabilities(home).Revoke(t.Context(), capability.RevokeKey(9)); err != nil {
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
		_, err := newCapabilities(home, aKey(t), slog.New(slog.DiscardHandler), nil, nil)
		if status.Of(err) != c.want || !bytes.Contains([]byte(err.Error()), []byte(file)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	home := t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ringFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCapabilities(home).Ring(); status.Of(err) != status.Corrupt {
		t.Errorf("a directory: %v", err)
	}
}

// TestCapabilityReload: a running node takes up what changes, at once where a
// token asks for a key it has not, and keeps what it has when a file is bad.
func TestCapabilityReload(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	c, log := verifierOf(t, home)
	first := mintIn(t, home)
	if got := c.refusal(t, first); got != "ok" {
		t.Fatalf("a capability that was just minted is %s", got)
	}
	what, err := capability.RevokeToken(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.files.Revoke(t.Context(), what); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.look(false); !changed || err != nil {
		t.Fatalf("%v, %v", changed, err)
	}
	if got := c.refusal(t, first); got != string(capability.Revoked) {
		t.Errorf("what was revoked is %s", got)
	}
	second := mintIn(t, home)
	if changed, err := c.look(false); changed || err != nil {
		t.Errorf("nothing changed: %v, %v", changed, err)
	}

	ring := filepath.Join(home, ringFile)
	good, err := os.ReadFile(ring)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ring, []byte("nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log.Reset()
	if _, err := c.look(false); status.Of(err) != status.Corrupt {
		t.Errorf("%v", err)
	}
	if changed, err := c.look(false); changed || err != nil {
		t.Errorf("the same bad file again: %v, %v", changed, err)
	}
	if err := c.Reload(); status.Of(err) != status.Corrupt {
		t.Errorf("%v", err)
	}
	if n := bytes.Count(log.Bytes(), []byte("level=WARN")); n != 2 {
		t.Errorf("%d warnings: %s", n, log)
	}
	if got := c.refusal(t, second); got != "ok" {
		t.Errorf("with a bad file in place, a good capability is %s", got)
	}
	if got := c.refusal(t, first); got != string(capability.Revoked) {
		t.Errorf("with a bad file in place, what was revoked is %s", got)
	}
	if err := os.WriteFile(ring, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Reload(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(ring); err != nil {
		t.Fatal(err)
	}
	if changed, err := c.look(false); !changed || err != nil {
		t.Errorf("%v, %v", changed, err)
	}
	if got := c.refusal(t, second); got != string(capability.UnknownKey) {
		t.Errorf("without a ring it is %s", got)
	}
	for result, want := range map[string]float64{"ok": 4, "failed": 2} {
		if got := testutil.ToFloat64(c.m.reloads.WithLabelValues(result)); got < want {
			t.Errorf("%v reloads are %s, want %v at least", got, result, want)
		}
	}
	if got := testutil.ToFloat64(c.m.checks.WithLabelValues(string(capability.Revoked))); got != 2 {
		t.Errorf("%v checks found it revoked", got)
	}
	for _, token := range []string{first, second} {
		if bytes.Contains(log.Bytes(), []byte(token[40:])) {
			t.Error("the log has a token")
		}
	}
}

// TestCapabilityHurry: strangers cannot make the node read its files again and
// again, and the poll sees a change.
func TestCapabilityHurry(t *testing.T) {
	t.Parallel()
	home, elsewhere := t.TempDir(), t.TempDir()
	stranger := mintIn(t, elsewhere)
	synctest.Test(t, func(t *testing.T) {
		c, _ := verifierOf(t, home)
		if !c.hurryable() || c.refusal(t, stranger) != string(capability.UnknownKey) || c.hurryable() {
			t.Error("the first token did not make the node look, or the second would again")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		ready := make(chan struct{})
		run.Go(func() {
			if err := c.Run(ctx, func() { close(ready) }); err != nil {
				t.Error(err)
			}
		})
		<-ready
		token := mintIn(t, home)
		c.hurried.Store(int64(time.Since(c.start))) // somebody looked just now
		if got := c.refusal(t, token); got != string(capability.UnknownKey) {
			t.Errorf("it is %s before anybody looked", got)
		}
		time.Sleep(ringEvery)
		synctest.Wait()
		c.hurried.Store(int64(time.Since(c.start)))
		if got := c.refusal(t, token); got != "ok" {
			t.Errorf("after a poll it is %s", got)
		}
		cancel()
		run.Wait()
	})
}

// hurryable reports whether a token that asks for an unknown key would make c
// look now.
func (c *capabilities) hurryable() bool {
	return int64(time.Since(c.start))-c.hurried.Load() >= int64(ringHurry)
}

// TestAudience: "self" is the home's own node, and everything else a peer id.
func TestAudience(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	c := OpenCapabilities(home)
	if _, err := c.Audience("self"); status.Of(err) != status.BadRequest {
		t.Errorf("%v", err)
	}
	key := aKey(t)
	if err := GiveIdentity(home, key); err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{"self", id.String(), peer.ToCid(id).String()} {
		if got, err := c.Audience(in); err != nil || got != id.String() {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	if _, err := c.Audience("me"); status.Of(err) != status.BadRequest {
		t.Errorf("%v", err)
	}
}
