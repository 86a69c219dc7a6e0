package doctor_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"allium/gateway/api"
	"allium/node/config"
	"allium/node/doctor"
	homedir "allium/node/home"
	"allium/protocols/status"
)

// unpack returns the files of a bundle.
func unpack(t *testing.T, bundle []byte) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := io.ReadAll(r)
		if err != nil || h.Mode != 0o600 {
			t.Fatalf("%s: mode %o, %v", h.Name, h.Mode, err)
		}
		files[h.Name] = string(p)
	}
}

// plantSecrets plants what a bundle must not tell into everything that it is made of, and returns it.
func plantSecrets(w *world) (secrets []string) {
	secret := func(format string) string {
		s := fmt.Sprintf(format, len(secrets)+10)
		secrets = append(secrets, s)
		return s
	}
	key, err := os.ReadFile(filepath.Join(w.home, homedir.KeyFile))
	w.must(err)
	secrets = append(secrets, strings.TrimSpace(string(key)), w.home, seedID, selfID)

	w.t.Helper()
	cfg, err := config.Load(config.Options{
		Env: []string{
			"ALLIUM_NODE__REGION=" + secret("region-%d"), "ALLIUM_NODE__DOMAIN=" + secret("rack-%d"),
		},
		Flags: map[string]any{
			"store.s3.url":              secret("s3://bucket-%d/prefix"),
			"store.s3.endpoint":         secret("https://s3-%d.example.org"),
			"store.s3.credentials_file": secret("/home/carol/credentials-%d"),
			"store.dir":                 secret("/srv/dave-%d/store"),
			"dht.bootstrap":             []string{secret("/dns4/seed-%d.example.org/tcp/4901") + "/p2p/" + seedID},
			"listen.announce":           []string{secret("/ip4/203.0.113.%d/tcp/4901")},
			"gateway.cors_origins":      []string{secret("https://app-%d.example.org")},
			"gateway.denylist":          []string{secret("denied-%d.txt")},
			"gateway.trusted_proxies":   []string{secret("10.77.%d.1")},
			"admin.hosts":               []string{secret("admin-%d.example.org")},
			"edge.sources." + secret("source%d") + ".url": secret("https://origin-%d.example.org/x/"),
			"durability.targets":                          []string{secret("label%d") + "=3"},
		},
	})
	w.must(err)
	boot := cfg.DHT.Seeds.Bootstrap
	w.deps.Config = cfg

	w.deps.Check = func(context.Context) error {
		return status.Errorf(status.BadRequest, "%s cannot be read by %s",
			secret("/home/alice/file-%d"), secret("user-%d"))
	}
	w.process("4243", secret("program-%d"), filepath.Join(w.home, secret("opened-%d")))
	w.process("4244", secret("editor-%d"), filepath.Join(w.home, secret("edited-%d")))
	w.must(os.WriteFile(filepath.Join(w.home, "swarm.key"), []byte(secret("swarm-key-%d")), 0o644))
	w.must(os.MkdirAll(filepath.Join(w.home, "zones"), 0o700))
	zone := filepath.Join(w.home, "zones", secret("k51zone%d")+".key")
	w.must(os.WriteFile(zone, []byte(secret("zone-key-%d")), 0o644))
	w.deps.Config.Gateway.TLS.Cert, w.deps.Config.Gateway.TLS.Key = secret("cert-%d.pem"), secret("key-%d.pem")

	n := w.node
	n.names = append(n.names, api.OwnName{
		Name: secret("label-%d.k51qzi"), Short: secret("blog-%d.petname"), Value: secret("value-%d"), NotAfter: now,
		Error: &status.Report{Message: secret("refused by 198.51.100.%d")},
	})
	n.seeds.Seeds = append(n.seeds.Seeds, api.Seed{
		ID: secret("12D3KooWSeed%d"), Addrs: []string{secret("/ip4/198.51.100.%d/tcp/1")},
		LastError: secret("dial 198.51.%d.7: connection refused"),
	})
	n.seeds.Manifest = &api.SeedManifest{Signer: secret("12D3KooWSigner%d"), Error: secret("signed by signer-%d")}
	n.peers = append(n.peers, api.Peer{
		ID: secret("12D3KooWPeer%d"), Addr: secret("/ip6/2001:db8::%d/tcp/1"), Agent: secret("agent of erin %d"),
		Direction: "in", Transport: "tcp",
	})
	n.reach.Addrs = append(n.reach.Addrs, api.ReachAddr{
		Addr: secret("/ip4/100.64.0.%d/tcp/1"), Via: "router", Scope: api.ReachLAN,
		By: []string{secret("12D3KooWBy%d")},
	})
	n.reach.From = api.ReachLAN
	n.reach.Advice = []string{secret("forward the port to 192.168.%d.3")}
	n.shut("identity", secret("a twin runs at 192.0.2.%d"))
	n.shut("audit", secret("/var/log/frank-%d is full"))
	n.shut("store_bucket", secret("bucket grace-%d is away"))
	n.version.Version = secret("v1 of heidi %d")
	w.deps.Metrics = metricsOf(secret("/srv/ivan/%d"), secret("judy-%d"))
	secrets = append(secrets, boot...)
	return secrets
}

// metricsOf returns metrics of which some have secrets in their labels.
func metricsOf(secrets ...string) func(context.Context) ([]byte, error) {
	text := "# HELP dht_table_peers Peers.\ndht_table_peers 40\nrejected_total{reason=\"busy\"} 3\n"
	for _, s := range secrets {
		text += fmt.Sprintf("edge_bytes_total{source=%q} 1\nrejected_total{reason=%q} 2\n", s, s+" x")
	}
	return func(context.Context) ([]byte, error) { return []byte(text), nil }
}

// TestBundleTellsNothing plants secrets of many kinds and looks for each in the bundle, as it is and encoded.
func TestBundleTellsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	secrets := plantSecrets(w)
	r, facts := doctor.Run(t.Context(), w.deps, nil)
	if len(r.Findings) < 8 {
		t.Errorf("the secrets are in few findings: %+v", r)
	}
	told, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	var bundle bytes.Buffer
	if err := doctor.WriteBundle(&bundle, w.deps, facts); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, bundle.Bytes())
	if len(secrets) < 40 {
		t.Errorf("only %d secrets are planted", len(secrets))
	}
	for _, s := range secrets {
		if strings.Contains(string(told), s) {
			shown++
		}
		for form, text := range map[string]string{
			"as it is": s, "in base64": base64.StdEncoding.EncodeToString([]byte(s)),
			"in hex": hex.EncodeToString([]byte(s)),
		} {
			for name, file := range files {
				if strings.Contains(file, text) {
					t.Errorf("%s has %q %s", name, s, form)
				}
			}
		}
	}
	if shown < 10 { // else the test proves little
		t.Errorf("only %d secrets are in what doctor prints", shown)
	}
	for name, want := range map[string]string{
		"doctor.json": `"check": "certificate"`, "config.json": `"key": "store.s3.url",`,
		"health.json":  `"name": "identity"`,
		"network.json": `"address lan router "`, "metrics.txt": "dht_table_peers 40",
		"system.json":  `"somaxconn": 4096`,
		"version.json": `"v0.1.0"`, "limits.json": "[]", "README.txt": "numbers, dates and words",
	} {
		if got := files["allium-doctor/"+name]; !strings.Contains(got, want) {
			t.Errorf("%s has no %s:\n%s", name, want, got)
		}
	}
}

// TestBundleOfNothing: a bundle of a machine without a node says so.
func TestBundleOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	_, facts := doctor.Run(t.Context(), w.deps, nil)
	var bundle bytes.Buffer
	if err := doctor.WriteBundle(&bundle, w.deps, facts); err != nil {
		t.Fatal(err)
	}
	if text := unpack(t, bundle.Bytes())["allium-doctor/README.txt"]; !strings.Contains(text, "none answered") {
		t.Error(text)
	}
}

// TestSaveBundle: a bundle is there whole and private, or not at all, and replaces nothing unasked.
func TestSaveBundle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "report.tar.gz")
	write := func(text string, err error) func(io.Writer) error {
		return func(w io.Writer) error {
			_, werr := io.WriteString(w, text)
			return errors.Join(werr, err)
		}
	}
	want := func(text string) {
		t.Helper()
		got, err := os.ReadFile(file)
		info, serr := os.Stat(file)
		if err := errors.Join(err, serr); err != nil || string(got) != text || info.Mode().Perm() != 0o600 {
			t.Errorf("%q, %v", got, err)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Errorf("the directory has %v, %v", list, err)
		}
	}
	if err := doctor.SaveBundle(file, false, write("half", syscall.ENOSPC)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("a full disk left %v, %v", list, err)
	}
	if err := doctor.SaveBundle(file, false, write("one", nil)); err != nil {
		t.Fatal(err)
	}
	want("one")
	if err := doctor.SaveBundle(file, false, write("two", nil)); status.Of(err) != status.Conflict {
		t.Errorf("a file that exists: %v", err)
	}
	want("one")
	if err := doctor.SaveBundle(file, true, write("half", syscall.ENOSPC)); err == nil {
		t.Error("a full disk with --force")
	}
	want("one")
	if err := doctor.SaveBundle(file, true, write("three", nil)); err != nil {
		t.Fatal(err)
	}
	want("three")
}

// TestPseudonyms: the same text has the same name within a bundle.
func TestPseudonyms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	w.node.seeds.Seeds = []api.Seed{{ID: "a", LastError: "no answer"}, {ID: "b", LastError: "no answer"}}
	_, facts := doctor.Run(t.Context(), w.deps, nil)
	var bundle bytes.Buffer
	if err := doctor.WriteBundle(&bundle, w.deps, facts); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, bundle.Bytes())
	var network struct {
		Seeds []struct{ ID, Verdict string }
	}
	err := json.Unmarshal([]byte(files["allium-doctor/network.json"]), &network)
	if err != nil || len(network.Seeds) != 2 {
		t.Fatal(err, files["allium-doctor/network.json"])
	}
	for _, s := range network.Seeds {
		found := files["allium-doctor/doctor.json"]
		if s.Verdict != "silent" || !strings.Contains(found, "the seed "+s.ID+" does not answer") {
			t.Errorf("%+v\n%s", s, found)
		}
	}
	if network.Seeds[0].ID == network.Seeds[1].ID {
		t.Error("two seeds have one name")
	}
}
