package node

import (
	"strings"
	"testing"

	"allium/node/config"
	"allium/node/p2p"
)

func TestNotes(t *testing.T) {
	t.Parallel()
	cfg := config.Default(p2p.Desktop)
	if notes := Notes(cfg); len(notes) != 0 {
		t.Errorf("public: %q", notes)
	}
	cfg.Node.SwarmKey = "swarm.key"
	if notes := Notes(cfg); len(notes) != 1 || !strings.Contains(notes[0], "/ip6/::/udp/4901/quic-v1") {
		t.Errorf("private: %q", notes)
	}
}
