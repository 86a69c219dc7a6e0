package config

import (
	"strings"
	"testing"
)

// TestOneMistakeIsToldOnce: each file has one mistake, and the error has one line.
func TestOneMistakeIsToldOnce(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"profile":            "node.profile = 'bogus'\n",
		"rate":               "node.upload_rate = 1\n",
		"type beside bounds": "edge.max_fresh = 'x'\nedge.min_fresh = '48h'\n",
		"type of a bound":    "edge.min_fresh = 'x'\n",
		"amnesia and disk":   "node.amnesia = true\nstore.backend = 'embedded'\n",
		"bucket without url": "store.backend = 's3'\n",
		"backend":            "store.backend = 'tape'\n",
		"certificate alone":  "gateway.tls.cert = 'a.pem'\n",
		"key alone":          "gateway.tls.key = 'a.pem'\n",
		"listen":             "listen.addrs = ['nonsense']\n",
		"bootstrap":          "dht.bootstrap = ['nonsense']\n",
		"level":              "log.level = 'loud'\n",
		"format":             "log.format = 'xml'\n",
		"entry":              "[edge.sources.x]\nurl = 'ftp://a.example/'\n",
		"entry and field":    "[edge.sources.x]\nurl = 3.5\n",
		"entry, bad bool":    "[edge.sources.x]\nurl = 'https://a.example/'\nprivate = 'maybe'\n",
		"entry, typo":        "[edge.sources.x]\nurls = ['https://a.example/']\nprivat = true\n",
		"entry, name":        "[edge.packs.'UP per']\nfile = 'a.pmtiles'\n",
		"entry, both":        "[edge.packs.x]\nfile = 'a.pmtiles'\nkey = 'b3:00'\n",
		"typo":               "store.max_byte = '1GiB'\n",
		"typo of a table":    "[stor]\nmax_bytes = '1GiB'\n",
		"quota":              "store.quotas = ['photos']\n",
		"target":             "durability.targets = ['photos']\n",
		"seed target":        "node.profile = 'seed'\ndurability.targets = ['photos=3']\n",
		"offer twice":        "durability.offer = '1GiB'\nstore.quotas = ['cluster=1GiB']\n",
		"alpha":              "dht.alpha = 1000\n",
		"authority":          "dht.seed_authorities = ['x']\n",
		"gateway":            "gateway.listen = 'nowhere'\n",
		"admin":              "admin.listen = '0.0.0.0:9600'\n",
		"origins":            "gateway.cors_origins = ['nonsense']\n",
		"quic":               "node.swarm_key = 'k'\nlisten.addrs = ['/ip4/0.0.0.0/udp/4901/quic-v1']\n",
		"negative":           "store.max_bytes = -1\n",
		"drain":              "node.drain_deadline = '1h'\n",
	} {
		_, err := loadFile(t, text)
		if err == nil {
			t.Errorf("%s: no mistake", name)
		} else if n := strings.Count(err.Error(), "\n") + 1; n != 1 {
			t.Errorf("%s: told %d times:\n%v", name, n, err)
		}
	}
}
