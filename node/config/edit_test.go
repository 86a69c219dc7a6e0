package config_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"allium/node/config"
	"allium/protocols/status"
)

// read returns the content of a file.
func read(t *testing.T, name string) string {
	t.Helper()
	p, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

// one returns the only edit of all.
func one(all []config.Edited, err error) (config.Edited, error) {
	if len(all) != 1 {
		return config.Edited{}, err
	}
	return all[0], err
}

// TestSetTogether: keys that need each other are set and unset together, or not at all.
func TestSetTogether(t *testing.T) {
	t.Parallel()
	text := "[gateway]\n# mine\n"
	o := config.Options{File: file(t, text)}
	for _, args := range [][]string{
		{"gateway.tls.cert", "cert.pem"},
		{"gateway.tls.cert", "cert.pem", "gateway.tls.key"},
		{"gateway.tls.cert", "cert.pem", "gateway.tls.kye", "key.pem"},
		{"gateway.tls.cert", "cert.pem", "key.pem"},
		{"gateway.tls.cert", "cert.pem", "gateway.tls.key", "key.pem", "dht.alpha", "99"},
	} {
		all, err := config.Assignments(args)
		if err == nil {
			_, err = config.Set(t.Context(), o, all...)
		}
		if got := read(t, o.File); status.Of(err) != status.BadRequest || got != text {
			t.Errorf("%q: %v, and the file is\n%s", args, err, got)
		}
	}
	all, err := config.Assignments([]string{
		"gateway.tls.cert", "cert.pem", "gateway.cors_origins", "https://a.example", "https://b.example",
		"gateway.tls.key", "key.pem",
	})
	if err != nil {
		t.Fatal(err)
	}
	edited, err := config.Set(t.Context(), o, all...)
	if err != nil || len(edited) != 3 || edited[1].Value.Value != "https://a.example,https://b.example" ||
		edited[2].Name != "gateway.tls.key" || edited[2].Value.Value != "key.pem" || !edited[2].Changed {
		t.Fatalf("%+v, %v", edited, err)
	}
	if _, err := config.Unset(t.Context(), o, "gateway.tls.key"); status.Of(err) != status.BadRequest {
		t.Errorf("a certificate without a key: %v", err)
	}
	keys := []string{"gateway.tls.cert", "gateway.cors_origins", "gateway.tls.key"}
	if edited, err = config.Unset(t.Context(), o, keys...); err != nil || len(edited) != 3 {
		t.Fatalf("%+v, %v", edited, err)
	}
	if got := read(t, o.File); strings.TrimSpace(got) != text+"\n[gateway.tls]" {
		t.Errorf("left\n%s", got)
	}
}

func TestSetAndUnset(t *testing.T) {
	t.Parallel()
	text := "# mine\n[store] # big\n# max_bytes = \"0\"\n[dht]\nalpha = 5 # more\n"
	o := config.Options{File: file(t, text)}
	for _, step := range []struct {
		key    string
		values []string
		want   string // in the file
		value  string // in force
	}{
		{"store.max_bytes", []string{"200GiB"}, "# max_bytes = \"0\"\nmax_bytes = \"200GiB\"\n", "200GiB"},
		{"dht.alpha", []string{"4"}, "alpha = 4 # more\n", "4"},
		{"dht.bootstrap", []string{}, "", ""},
		{"gateway.cors_origins", []string{"https://a.example", "https://b.example"},
			"[gateway]\ncors_origins = [\"https://a.example\", \"https://b.example\"]\n",
			"https://a.example,https://b.example"},
		{"gateway.cors_origins", []string{"https://a.example,https://c.example"},
			"cors_origins = [\"https://a.example\", \"https://c.example\"]\n", "https://a.example,https://c.example"},
		{"gateway.cors_origins", []string{""}, "cors_origins = []\n", ""},
		{"store.upload_ttl", []string{"90m"}, "upload_ttl = \"90m\"\n", "1h30m"},
		{"listen.new_conns_per_ip", []string{"0.5"}, "new_conns_per_ip = 0.5\n", "0.5"},
		{"node.region", []string{"eu-1"}, "region = \"eu-1\"\n", "eu-1"},
	} {
		if len(step.values) == 0 {
			continue
		}
		e, err := one(config.Set(t.Context(), o, config.Assignment{Key: step.key, Values: step.values}))
		if err != nil {
			t.Fatalf("%s = %q: %v", step.key, step.values, err)
		}
		if got := read(t, o.File); !strings.Contains(got, step.want) || e.Value.Value != step.value || !e.Changed {
			t.Errorf("%s = %q: %+v in\n%s", step.key, step.values, e, got)
		}
	}
	for _, key := range []string{"store.max_bytes", "dht.alpha", "gateway.cors_origins", "store.upload_ttl",
		"listen.new_conns_per_ip", "node.region"} {
		if e, err := one(config.Unset(t.Context(), o, key)); err != nil || !e.Changed ||
			e.Source != config.FromDefault {
			t.Errorf("unset %s: %+v, %v", key, e, err)
		}
	}
	want := "# mine\n[store] # big\n# max_bytes = \"0\"\n[dht]\n# more\n\n[gateway]\n"
	if got := read(t, o.File); !strings.HasPrefix(got, "# mine\n[store] # big\n# max_bytes = \"0\"\n") ||
		!strings.Contains(got, "[dht]\n# more\n") {
		t.Errorf("left\n%s\nwant\n%s", got, want)
	}
	if e, err := one(config.Unset(t.Context(), o, "dht.alpha")); err != nil || e.Changed {
		t.Errorf("unset twice: %+v, %v", e, err)
	}
}

func TestSetRefusesAndWritesNothing(t *testing.T) {
	t.Parallel()
	text := "[dht]\nalpha = 5\n"
	for name, c := range map[string]struct {
		key    string
		values []string
		says   string
	}{
		"unknown key":       {"dht.alpa", []string{"3"}, `did you mean "dht.alpha"`},
		"fixed key":         {"dht.k", []string{"3"}, "fixed at 20"},
		"not an integer":    {"dht.alpha", []string{"many"}, "whole number"},
		"a fraction":        {"dht.alpha", []string{"1.5"}, "whole number"},
		"not a size":        {"store.max_bytes", []string{"16 furlongs"}, "a size such as"},
		"not a duration":    {"store.upload_ttl", []string{"soon"}, "a duration such as"},
		"not a bool":        {"gateway.h2c", []string{"perhaps"}, "true or false"},
		"not finite":        {"listen.new_conns_per_ip", []string{"inf"}, "finite"},
		"out of bounds":     {"dht.alpha", []string{"99"}, "alpha"},
		"against another":   {"listen.conns_low", []string{"1000"}, "conns_high"},
		"two of one":        {"dht.alpha", []string{"1", "2"}, "one value"},
		"unknown profile":   {"node.profile", []string{"giganode"}, "node.profile"},
		"amnesia on a disk": {"store.max_bytes", nil, ""},
	} {
		if c.values == nil {
			continue
		}
		o := config.Options{File: file(t, text)}
		_, err := config.Set(t.Context(), o, config.Assignment{Key: c.key, Values: c.values})
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if got := read(t, o.File); got != text {
			t.Errorf("%s: the file is now\n%s", name, got)
		}
	}
	if _, err := config.Set(t.Context(), config.Options{File: filepath.Join(t.TempDir(), "none")},
		config.Assignment{Key: "dht.alpha", Values: []string{"3"}}); status.Of(err) != status.NotFound {
		t.Errorf("no file: %v", err)
	}
	bad := config.Options{File: file(t, "[dht]\nalpa = 5\nalpha = 4\n")}
	if _, err := config.Set(t.Context(), bad, config.Assignment{Key: "dht.alpha", Values: []string{"3"}}); err == nil {
		t.Error("a file with an unknown key was written")
	}
	if e, err := one(config.Unset(t.Context(), bad, "dht.alpa")); err != nil || !e.Changed {
		t.Errorf("an unknown key cannot be taken out: %v", err)
	}
	if got := read(t, bad.File); got != "[dht]\nalpha = 4\n" {
		t.Errorf("left\n%s", got)
	}
}

// TestSetAtOnce: of commands that run at once each one's change is in the file, or it failed.
func TestSetAtOnce(t *testing.T) {
	t.Parallel()
	o := config.Options{File: file(t, "")}
	keys := map[string]string{"dht.alpha": "4", "store.max_bytes": "1GiB", "log.level": "debug", "node.region": "eu"}
	var mu sync.Mutex
	done := map[string]string{}
	var running sync.WaitGroup
	for key, value := range keys {
		running.Go(func() {
			for {
				_, err := config.Set(t.Context(), o, config.Assignment{Key: key, Values: []string{value}})
				if status.Of(err) == status.Conflict {
					continue
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				done[key] = value
				return
			}
		})
	}
	running.Wait()
	l, err := config.Load(o)
	if err != nil || !maps.Equal(done, keys) {
		t.Fatal(err, done)
	}
	for _, v := range l.Values() {
		if want, ok := keys[v.Name]; ok && v.Value != want {
			t.Errorf("%s is %s, want %s", v.Name, v.Value, want)
		}
	}
}

// TestPlaces: errors name the line and the column in the file, or the variable.
func TestPlaces(t *testing.T) {
	t.Parallel()
	name := file(t, "[dht]\nalpha = 99\n  k = 3\nalpa = 1\n\n"+
		"[listen]\nmax_conns = \"many\"\nconns_low=0\n[log]\nlevel = 'loud'\n")
	_, err := config.Load(config.Options{File: name, Env: []string{
		"ALLIUM_NODE__DRAIN_DEADLINE=1m", "ALLIUM_DHT__BETTA=1", "ALLIUM_STORE__MAX_BYTES=lots", "ALLIUM_HOME=/x",
		"ALLIUM_DHT_ALPHA=5", "ALLIUM_STORE_MAX_BYTE=1", "ALLIUM_CI=1", "ALLIUM_PORT=tcp://10.0.0.1", "ALLIUM_TOKEN=x",
	}})
	if status.Of(err) != status.BadRequest {
		t.Fatal(err)
	}
	for _, want := range []string{
		name + ":2:1: dht.alpha is 99", name + ":3:3: dht.k = 3", name + `:4:1: unknown key "dht.alpa"`,
		name + `:7:1: listen.max_conns is "many", must be a whole number`, name + ":8:1: listen.conns_low is 0",
		name + `:10:1: log.level is "loud"`, "ALLIUM_NODE__DRAIN_DEADLINE: node.drain_deadline is 1m",
		`ALLIUM_DHT__BETTA: unknown key "dht.betta"; did you mean "dht.beta"`,
		`ALLIUM_STORE__MAX_BYTES: store.max_bytes is "lots", must be a size`,
		"ALLIUM_DHT_ALPHA sets nothing; did you mean ALLIUM_DHT__ALPHA, the variable of dht.alpha?",
		"ALLIUM_STORE_MAX_BYTE sets nothing; did you mean ALLIUM_STORE__MAX_BYTES",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q", want)
		}
	}
	for _, other := range []string{"ALLIUM_CI", "ALLIUM_PORT", "ALLIUM_HOME", "ALLIUM_TOKEN"} {
		if strings.Contains(err.Error(), other) {
			t.Errorf("it complains about %s", other)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}
