package config

import (
	"regexp"
	"strings"
	"testing"

	"allium/node/p2p"
	"allium/protocols/status"
	"allium/store"
)

// worksInRAM are the keys that sound like a disk, or belong to the store, and
// mean something without one. A new key of the store is either here or has a
// disk tag.
var worksInRAM = map[string]string{
	"store.memory_bytes": "the cap of the RAM",
	"store.max_bytes":    "a cap that may be lower",
	"store.max_objects":  "bounds what is held, wherever it is",
	"store.gc_duty":      "collections are the same in RAM",
	"store.puts":         "bounds work, wherever the bytes go",
	"store.quotas":       "bounds what pins lead to, wherever that is",
	"node.amnesia":       "says it itself",

	"gateway.sites.NAME.key":        "names a directory of objects, wherever they are",
	"gateway.sites.NAME.clean_urls": "is about a directory of objects",
	"gateway.archive_bytes":         "bounds what is sent, wherever it is",
	"gateway.archive_entries":       "bounds what is sent, wherever it is",

	"node.low_power":      "the files are only looked at",
	"node.swarm_key":      "the file is only read",
	"listen.allow":        "the files are only read",
	"listen.deny":         "the files are only read",
	"dht.seed_manifest":   "the file is only read",
	"names.maps":          "the files are only read",
	"gateway.tls.cert":    "the file is only read",
	"gateway.tls.key":     "the file is only read",
	"gateway.tls.certs":   "the files are only read",
	"gateway.tls.acme_ca": "the file is only read",
	"gateway.denylist":    "the files are only read",
	"edge.dir":            "the files are only read",
	"edge.pack_cache":     "bounds RAM",
	"store.uploads":       "bounds work, wherever the bytes go",
	"store.upload_ttl":    "bounds what is kept, wherever that is",
	"audit.enabled":       "its records are kept in RAM then",

	"trace.films": "they are in RAM",

	"edge.packs.NAME.file":       "the file is only read",
	"edge.sources.NAME.key":      "names what is in the store, in RAM too",
	"edge.sources.NAME.ca_file":  "the file is only read",
	"edge.sources.NAME.manifest": "names what is in the store, in RAM too",
}

// TestEveryKeyOfTheDiskIsTagged makes whoever adds a key decide.
func TestEveryKeyOfTheDiskIsTagged(t *testing.T) {
	t.Parallel()
	tagged, keys := map[string]bool{}, map[string]bool{}
	for _, d := range diskKeys(Default(p2p.Desktop)) {
		tagged[d.key] = true
	}
	disk := regexp.MustCompile(`(?i)\b(disk|file|files|directory)\b`)
	for _, k := range Keys() {
		_, inRAM := worksInRAM[k.Name]
		suspect := strings.HasPrefix(k.Name, "store.") || disk.MatchString(k.Doc)
		switch {
		case tagged[k.Name] && inRAM:
			t.Errorf("%s has a disk tag and is listed as working in RAM", k.Name)
		case suspect && !tagged[k.Name] && !inRAM:
			t.Errorf("%s: does it need a disk? then its field needs a disk tag, else a line in worksInRAM", k.Name)
		}
		keys[k.Name] = true
	}
	for name := range worksInRAM {
		if !keys[name] {
			t.Errorf("%s is no key", name)
		}
	}
}

// TestAmnesiaAndDisk sets every key that needs a disk, from every source,
// together with amnesia from every source.
func TestAmnesiaAndDisk(t *testing.T) {
	t.Parallel()
	amnesia := []map[string]any{{"node.amnesia": true}, {"node.profile": "micronode"}}
	for _, d := range diskKeys(Default(p2p.Desktop)) {
		value := d.value
		if !d.needsDisk {
			value = wantedValue(t, d.key)
		}
		for _, on := range amnesia {
			env := "ALLIUM_" + strings.ToUpper(strings.ReplaceAll(d.key, ".", "__")) + "=" + value
			_, err := Load(Options{Env: []string{env}, Flags: on})
			if status.Of(err) != status.BadRequest {
				t.Errorf("%s with %v: %v", env, on, err)
				continue
			}
			for _, want := range []string{d.key + " = " + value, "environment", "remove " + d.key, "node.amnesia to false",
				"--amnesia=false"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s with %v: %q is not in: %v", env, on, want, err)
				}
			}
			off := map[string]any{"node.amnesia": false}
			for k, v := range on {
				if k == "node.profile" {
					off[k] = v
				}
			}
			if l, err := Load(Options{Env: []string{env}, Flags: off}); err != nil || l.Node.Amnesia {
				t.Errorf("%s with %v, the way out: %v", env, off, err)
			}
		}
	}
}

// wantedValue is a value that asks for the disk, for keys that are off by
// default.
func wantedValue(t *testing.T, key string) string {
	t.Helper()
	value, ok := map[string]string{
		"store.s3.url": "s3://bucket/prefix", "store.s3.credentials_file": "keys", "store.s3.node": "n1",
		"store.s3.path_style": "true", "store.s3.shared": "true", "store.index_cache": "8MiB",
	}[key]
	if !ok {
		t.Fatalf("%s needs a disk and is off by default: give this test a value that turns it on", key)
	}
	return value
}

// TestAmnesiaDecidesTheBackend: what nobody chose follows node.amnesia.
func TestAmnesiaDecidesTheBackend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flags   map[string]any
		amnesia bool
		backend string
	}{
		{nil, false, store.BackendEmbedded},
		{map[string]any{"node.amnesia": true}, true, store.BackendMemory},
		{map[string]any{"node.amnesia": true, "store.backend": "memory"}, true, store.BackendMemory},
		{map[string]any{"node.profile": "micronode"}, true, store.BackendMemory},
		{map[string]any{"node.profile": "micronode", "node.amnesia": false}, false, store.BackendEmbedded},
		{map[string]any{"store.backend": "memory"}, false, store.BackendMemory},
	} {
		l, err := Load(Options{Flags: c.flags})
		if err != nil || l.Node.Amnesia != c.amnesia || l.Store.Backend != c.backend {
			t.Errorf("%v: amnesia %t, backend %q, %v", c.flags, l.Node.Amnesia, l.Store.Backend, err)
		}
	}
	c := Default(p2p.Desktop)
	c.Node.Amnesia = true
	if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "store.backend") {
		t.Errorf("a configuration made by hand: %v", err)
	}
}
