package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"allium/node/config"
	"allium/node/p2p"
	"allium/protocols/status"
)

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), config.FileName)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPrecedence(t *testing.T) {
	t.Parallel()
	o := config.Options{File: file(t,
		"[dht]\nalpha = 5\nbeta = 4\nfind_timeout = \"700ms\"\n[listen]\naddrs = [\"/ip4/127.0.0.1/tcp/0\"]\n")}
	for _, step := range []struct {
		env   []string
		flags map[string]any
		alpha int
		from  config.Source
	}{
		{nil, nil, 5, config.FromFile},
		{[]string{"ALLIUM_DHT__ALPHA=6", "ALLIUM_HOME=/nowhere"}, nil, 6, config.FromEnv},
		{[]string{"ALLIUM_DHT__ALPHA=6"}, map[string]any{"dht.alpha": 7}, 7, config.FromFlag},
	} {
		o.Env, o.Flags = step.env, step.flags
		l, err := config.Load(o)
		if err != nil {
			t.Fatal(err)
		}
		if l.DHT.Alpha != step.alpha || l.Sources["dht.alpha"] != step.from {
			t.Errorf("alpha is %d from %s, want %d from %s", l.DHT.Alpha, l.Sources["dht.alpha"], step.alpha, step.from)
		}
		if l.DHT.Beta != 4 || l.DHT.FindTimeout != 700*time.Millisecond ||
			l.DHT.Lookups != config.Default(p2p.Desktop).DHT.Lookups {
			t.Errorf("the rest is wrong: %+v", l.DHT)
		}
		if len(l.Listen.Listen) != 1 {
			t.Errorf("a list is merged, not replaced: %v", l.Listen.Listen)
		}
	}
}

func TestProfileDecidesDefaults(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Env: []string{"ALLIUM_NODE__PROFILE=testnet"}})
	if err != nil {
		t.Fatal(err)
	}
	if !l.DHT.Server || l.Gateway.Listen != "127.0.0.1:0" || l.Listen.Profile != p2p.Testnet {
		t.Errorf("not a testnet: %+v", l.Config)
	}
}

// TestOldNameOfDesktop: macronode is understood, and never shown.
func TestOldNameOfDesktop(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Flags: map[string]any{"node.profile": "macronode"}})
	if err != nil || l.Node.Profile != p2p.Desktop || !reflect.DeepEqual(l.Config, config.Default(p2p.Desktop)) {
		t.Errorf("got profile %s, %v", l.Node.Profile, err)
	}
}

// TestProfiles: each is a valid configuration, and differs from a desktop as SPEC §10 says.
func TestProfiles(t *testing.T) {
	t.Parallel()
	for _, p := range p2p.Profiles() {
		l, err := config.Load(config.Options{Flags: map[string]any{"node.profile": string(p)}})
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		public := p == p2p.Server || p == p2p.Gateway || p == p2p.Seed
		if mapped := l.Listen.PortMap; mapped == (public || p == p2p.Client || p == p2p.Testnet) {
			t.Errorf("%s: port mapping is %t", p, mapped)
		}
		if dialled := len(l.Listen.Listen) > 0; dialled == (p == p2p.Client) {
			t.Errorf("%s listens on %v", p, l.Listen.Listen)
		}
		if l.Node.Amnesia != (p == p2p.Micronode) {
			t.Errorf("%s: amnesia is %t", p, l.Node.Amnesia)
		}
		loopback := strings.HasPrefix(l.Gateway.Listen, "127.0.0.1:")
		if loopback == (p == p2p.Gateway) {
			t.Errorf("%s: the gateway listens on %s", p, l.Gateway.Listen)
		}
		desktop := config.Default(p2p.Desktop)
		if small := l.Listen.MaxConns < desktop.Listen.MaxConns; small != (p == p2p.Pi || p == p2p.Micronode) {
			t.Errorf("%s takes %d connections", p, l.Listen.MaxConns)
		}
	}
}

// TestPort: it is that of the default addresses, and changes none that somebody named.
func TestPort(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Env: []string{"ALLIUM_LISTEN__PORT=5001"}})
	if err != nil || !reflect.DeepEqual(l.Listen.Listen, p2p.ListenAddrs(p2p.Desktop, 5001)) || len(l.Notes()) > 0 {
		t.Errorf("listens on %v, %v", l.Listen.Listen, err)
	}
	for _, a := range l.Listen.Listen {
		if !strings.Contains(a, "/5001") {
			t.Errorf("%s has another port", a)
		}
	}
	named := []string{"/ip4/127.0.0.1/tcp/7"}
	l, err = config.Load(config.Options{
		Env: []string{"ALLIUM_LISTEN__PORT=5001"}, Flags: map[string]any{"listen.addrs": named},
	})
	if err != nil || !reflect.DeepEqual(l.Listen.Listen, named) || len(l.Notes()) != 1 {
		t.Errorf("listens on %v, notes %q, %v", l.Listen.Listen, l.Notes(), err)
	}
	_, err = config.Load(config.Options{Env: []string{"ALLIUM_LISTEN__PORT=65536"}})
	if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), "listen.port is 65536") {
		t.Errorf("a port that is none: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]config.Options{
		`did you mean "dht.alpha"`:         {Env: []string{"ALLIUM_DHT__ALPA=5"}},
		`did you mean "store.index_cache"`: {Flags: map[string]any{"index_cache": 1}},
		"allium config show":               {Flags: map[string]any{"completely.unlike.anything": 1}},
		"alpha":                            {Flags: map[string]any{"dht.alpha": 99}},
		"profile":                          {Flags: map[string]any{"node.profile": "giganode"}},
		"log.level":                        {Flags: map[string]any{"log.level": "loud"}},
		"drain_deadline":                   {Flags: map[string]any{"node.drain_deadline": "1m"}},
		"min_rate":                         {Flags: map[string]any{"gateway.min_rate": "16 furlongs"}},
		":1:5: ":                           {File: file(t, "[dht\n")},
	} {
		_, err := config.Load(o)
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), want) {
			t.Errorf("want a refusal with %q, got %v", want, err)
		}
	}
	if _, err := config.Load(config.Options{File: "/nowhere/config.toml",
		Required: true}); status.Of(err) != status.NotFound {
		t.Errorf("a named file that is missing: %v", err)
	}
	if _, err := config.Load(config.Options{File: "/nowhere/config.toml"}); err != nil {
		t.Errorf("the default file may be missing: %v", err)
	}
}

// TestEveryKeyIsDocumentedAndSettable sets each key to the value it has and
// expects the same configuration back.
func TestEveryKeyIsDocumentedAndSettable(t *testing.T) {
	t.Parallel()
	def, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range def.Values() {
		if len(v.Doc) < 10 {
			t.Errorf("%s is not documented", v.Name)
		}
		if v.Name != strings.ToLower(v.Name) || strings.Count(v.Name, ".") < 1 {
			t.Errorf("%s is not a lower_snake key in a group", v.Name)
		}
		env := "ALLIUM_" + strings.ToUpper(strings.ReplaceAll(v.Name, ".", "__")) + "=" + v.Value
		got, err := config.Load(config.Options{Env: []string{env}})
		if err != nil {
			t.Errorf("%s: %v", env, err)
			continue
		}
		if got.Sources[v.Name] != config.FromEnv {
			t.Errorf("%s is not from the environment", v.Name)
		}
		if !reflect.DeepEqual(normal(got.Config), normal(def.Config)) {
			t.Errorf("%s changes the configuration", env)
		}
	}
}

// normal makes empty and nil lists the same.
func normal(c config.Config) config.Config {
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		switch {
		case v.Kind() == reflect.Struct:
			for i := range v.NumField() {
				walk(v.Field(i))
			}
		case v.Kind() == reflect.Slice && v.Len() == 0 && v.CanSet():
			v.SetZero()
		}
	}
	walk(reflect.ValueOf(&c).Elem())
	return c
}

// TestWrittenFileIsTheDefault writes what `allium init` writes, uncomments
// every key and reads it back.
func TestWrittenFileIsTheDefault(t *testing.T) {
	t.Parallel()
	def, err := config.Load(config.Options{Flags: map[string]any{"node.profile": "seed"}})
	if err != nil {
		t.Fatal(err)
	}
	text := config.TOML(def)
	if n := strings.Count(text, "\n"); n > 40 {
		t.Errorf("it has %d lines, above 40", n)
	}
	if !strings.Contains(text, "\nprofile = \"seed\"\n") {
		t.Error("the profile is not set")
	}
	var all strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# "); ok && strings.Contains(line, " = ") {
			line = rest
		}
		all.WriteString(line)
	}
	for name, text := range map[string]string{"as it is": text, "with every key": all.String()} {
		got, err := config.Load(config.Options{File: file(t, text)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(normal(got.Config), normal(def.Config)) {
			t.Errorf("%s: the file gives another configuration", name)
		}
	}
}
