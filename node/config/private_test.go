package config

import (
	"strings"
	"testing"

	"allium/protocols/status"
)

func TestPrivateListen(t *testing.T) {
	t.Parallel()
	const quic, tcp = "/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"
	for name, c := range map[string]struct {
		flags map[string]any
		env   []string
		bad   bool
	}{
		"the defaults":               {flags: map[string]any{"node.swarm_key": "k"}},
		"TCP that was named":         {flags: map[string]any{"node.swarm_key": "k", "listen.addrs": []string{tcp}}},
		"QUIC in the public network": {flags: map[string]any{"listen.addrs": []string{quic, tcp}}},
		"QUIC that was named": {
			flags: map[string]any{"node.swarm_key": "k", "listen.addrs": []string{tcp, quic}}, bad: true,
		},
		"QUIC named in the environment": {
			env: []string{"ALLIUM_NODE__SWARM_KEY=k", "ALLIUM_LISTEN__ADDRS=" + quic}, bad: true,
		},
	} {
		_, err := Load(Options{Flags: c.flags, Env: c.env})
		if c.bad != (err != nil) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.bad && (status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), quic) ||
			!strings.Contains(err.Error(), "QUIC has no place for its key")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
