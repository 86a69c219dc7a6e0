package seeds

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"allium/internal/env"
	"allium/protocols/status"
)

func TestConfigRefusals(t *testing.T) {
	_, id := identity(t, 1)
	for _, c := range []struct {
		key string
		cfg Config
	}{
		{"dht.bootstrap", Config{Bootstrap: []string{"/ip4/192.0.2.1/tcp/4901"}}},
		{"dht.bootstrap", Config{Bootstrap: []string{"example.org"}}},
		{"dht.bootstrap", Config{Bootstrap: []string{"/p2p/" + id.String()}}},
		{"dht.bootstrap", Config{Bootstrap: make([]string, maxSeeds+1)}},
		{"dht.seed_authorities", Config{SeedManifest: "seeds.pem"}},
		{"dht.seed_authorities", Config{SeedAuthorities: []string{"somebody"}}},
		{"dht.seed_authorities", Config{SeedAuthorities: make([]string, maxAuthority+1)}},
	} {
		if err := c.cfg.Validate(); status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), c.key) {
			t.Errorf("%+v: %v", c.cfg, err)
		}
	}
	for _, c := range []Config{
		{}, configOf(t, peers(t, 0, 2)), {SeedManifest: "x", SeedAuthorities: []string{id.String()}},
	} {
		if err := c.Validate(); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestAddressesAreJoined: several addresses of one seed are one seed.
func TestAddressesAreJoined(t *testing.T) {
	_, id := identity(t, 1)
	tcp, quic := "/ip4/192.0.2.1/tcp/1/p2p/"+id.String(), "/ip4/192.0.2.1/udp/1/quic-v1/p2p/"+id.String()
	infos, err := ParseAddrs([]string{tcp, quic, tcp})
	if err != nil || len(infos) != 1 || len(infos[0].Addrs) != 2 {
		t.Errorf("got %v, %v", infos, err)
	}
}

func TestNewRefuses(t *testing.T) {
	d := newFakeDialer()
	read := func() ([]byte, error) { return nil, nil }
	reg := prometheus.NewRegistry()
	if _, err := New(Config{}, Deps{Env: env.Env{Metrics: reg}, Self: "me", Dialer: d}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  Config
		deps Deps
	}{
		"no id":           {Config{}, Deps{Dialer: d}},
		"no dialer":       {Config{}, Deps{Self: "me"}},
		"no reader":       {withManifest(t, Config{}), Deps{Self: "me", Dialer: d}},
		"nothing to read": {Config{}, Deps{Self: "me", Dialer: d, Manifest: read}},
		"a bad seed":      {Config{Bootstrap: []string{"x"}}, Deps{Self: "me", Dialer: d}},
		"metrics twice":   {Config{}, Deps{Env: env.Env{Metrics: reg}, Self: "me", Dialer: d}},
	} {
		if _, err := New(c.cfg, c.deps); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
