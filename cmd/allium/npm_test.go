package main

import (
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/testkit"
)

// TestNpm: npm installs a package with a scope from a directory below an address. It writes the slash of the name as
// %2f.
func TestNpm(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("npm"); err != nil {
		testkit.Missing(t, "needs npm: whether it reads packages from a gateway is not tested")
	}
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(in, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = at(in)
		cmd.Env = append(os.Environ(), "HOME="+dir, "npm_config_cache="+at("cache"), "npm_config_update_notifier=false",
			"npm_config_audit=false", "npm_config_fund=false", "npm_config_userconfig="+at("none"))
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	home := at("home")
	initHome(t, home)
	cmd := exec.Command("allium", "--home", home, "--json", "run", "--profile", "testnet", "--end-with-stdin",
		"--listen", "/ip4/127.0.0.1/tcp/0", "--gateway", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	node, said := startJSON(t, cmd)
	defer node.stop(t)

	write("package/package.json", `{"name": "@scope/greeting", "version": "1.0.0"}`)
	write("package/index.js", "module.exports = 'hello'\n")
	file := run("package", "npm", "pack", "--silent")
	packed, err := os.ReadFile(at("package/" + file))
	if err != nil {
		t.Fatal(err)
	}
	key := run("package", "allium", "--home", home, "add", "-q", file)
	sum := sha512.Sum512(packed)
	write("registry/@scope/greeting", fmt.Sprintf(`{"name": "@scope/greeting", "dist-tags": {"latest": "1.0.0"},
		"versions": {"1.0.0": {"name": "@scope/greeting", "version": "1.0.0",
		"dist": {"tarball": %q, "integrity": "sha512-%s"}}}}`,
		said.Gateway+"/o/"+key+"/"+file, base64.StdEncoding.EncodeToString(sum[:])))
	registry := said.Gateway + "/b3/" + run("registry", "allium", "--home", home, "add", "-q", ".") + "/"

	write("app/package.json", "{}")
	run("app", "npm", "install", "--registry", registry, "@scope/greeting")
	got, err := os.ReadFile(at("app/node_modules/@scope/greeting/index.js"))
	if err != nil || string(got) != "module.exports = 'hello'\n" {
		t.Errorf("npm installed %q, %v", got, err)
	}
}
