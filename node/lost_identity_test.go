package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	homedir "allium/node/home"

	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

// TestLostIdentity: where a node has run, a missing or empty identity is
// refused, and only init makes another one.
func TestLostIdentity(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cfg := config.Loaded{Config: config.Default(p2p.Testnet)}
	first, err := homedir.Init(home, cfg)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(home, homedir.KeyFile)
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if _, err := New(home, cfg.Config, Deps{}); err != nil {
		t.Fatalf("a home in which no node has run: %v", err)
	}
	if err := errors.Join(os.Remove(name), os.Mkdir(filepath.Join(home, homedir.RecordsDir), 0o700)); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"new":   func() error { _, err := New(home, cfg.Config, Deps{}); return err }(),
		"check": Check(t.Context(), home, cfg.Config),
	} {
		if status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), name) ||
			!strings.Contains(err.Error(), "allium init") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(name); err == nil {
		t.Fatal("a new identity was made without a word")
	}
	second, err := homedir.Init(home, cfg)
	if err != nil || second == first {
		t.Fatalf("init of a home that lost its identity: %s, %v", second, err)
	}
	if _, err := homedir.Init(home, cfg); status.Of(err) != status.Conflict {
		t.Errorf("init of a home that has all: %v", err)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(home, cfg.Config, Deps{}); status.Of(err) != status.Corrupt {
		t.Errorf("an empty identity: %v", err)
	}
}
