package node

import (
	"os"
	"testing"

	"allium/node/config"
	homedir "allium/node/home"
	"allium/node/p2p"
	"allium/protocols/status"
)

// TestLockComesFirst: who finds the home in use writes nothing there.
func TestLockComesFirst(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	cfg := config.Default(p2p.Testnet)
	n, err := New(home, cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := homedir.Lock(home)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if err := n.Run(t.Context(), func() { t.Error("ready") }); status.Of(err) != status.Busy {
		t.Errorf("run: %v", err)
	}
	if _, err := OpenOffline(t.Context(), home, cfg); status.Of(err) != status.Busy {
		t.Errorf("offline: %v", err)
	}
	if _, err := RebuildStore(t.Context(), home, cfg, nil); status.Of(err) != status.Busy {
		t.Errorf("rebuild: %v", err)
	}
	left, err := os.ReadDir(home)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		if f.Name() != homedir.KeyFile && f.Name() != "LOCK" {
			t.Errorf("%s was written", f.Name())
		}
	}
}
