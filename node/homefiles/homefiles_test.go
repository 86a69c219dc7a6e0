package homefiles_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/keyfile"
	"allium/internal/testkit"
	"allium/node/homefiles"
	"allium/protocols/capability"
)

func newKey(t *testing.T) string {
	t.Helper()
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := keyfile.Encode(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// write makes a directory with files.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
			os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestIsHome(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	const swarm, format = "/key/swarm/psk/1.0.0/\n/base16/\n00\n", "allium store\nformat 4\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"an identity":        {map[string]string{"identity.key": key}, true},
		"a damaged identity": {map[string]string{"identity.key": key[:40]}, true},
		"capability keys":    {map[string]string{"capability.keys": "allium-capability-keys/2\n"}, true},
		"revocations":        {map[string]string{"capability.revoked": "allium-capability-revoked/1\n"}, true},
		"a zone":             {map[string]string{"zones/k51x.key": key}, true},
		"a network":          {map[string]string{"swarm.key": swarm, "config.toml": ""}, true},
		"a store":            {map[string]string{"store/FORMAT": format, "LOCK": ""}, true},
		"a store on a disk":  {map[string]string{"store/FORMAT": format}, false},
		"another network":    {map[string]string{"swarm.key": swarm, "config": ""}, false},
		"a configuration":    {map[string]string{"config.toml": "[node]\n"}, false},
		"another identity":   {map[string]string{"identity.key": "-----BEGIN PRIVATE KEY-----\n"}, false},
		"zones of the DNS":   {map[string]string{"zones/example.key": key, "zones/k51.zone": key}, false},
		"directories":        {map[string]string{"identity.key/x": key, "zones/k51.key/x": key}, false},
		"nothing":            {nil, false},
	} {
		dir := write(t, c.files)
		if got := homefiles.IsHome(dir, nil); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		has := func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
		if got := homefiles.IsHome(dir, has); got != c.want {
			t.Errorf("%s, with a list of its names: %t", name, got)
		}
		if got := (homefiles.Own{}).Above(filepath.Join(dir, "a", "b")); (got == dir) != c.want {
			t.Errorf("%s: above is %q", name, got)
		}
	}
}

// TestKey: private keys that were copied out of a home are known by what is in them, under any name and mode.
func TestKey(t *testing.T) {
	t.Parallel()
	key, psk := newKey(t), strings.Repeat("0f", 32)
	const swarm = "/key/swarm/psk/1.0.0/\n/base16/\n"
	ring := func(keys int, revokes bool) string {
		var r capability.Ring
		for range keys {
			var err error
			if r, err = r.Rotate(time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if revokes {
			r = r.Revoking()
		}
		return string(r.Text())
	}
	const identity, network, mints = "the private key of a node or a zone", "the key of a private network",
		"the keys that mint capabilities"
	for name, c := range map[string]struct{ text, want string }{
		"key": {key, identity}, "plain": {key[:92], identity},
		"crlf": {key[:92] + "\r\n", identity}, "cut": {key[:91], ""},
		"changed": {key[:50] + "AAAA" + key[54:], ""}, "other": {string(make([]byte, 93)), ""},
		"psk": {swarm + psk + "\n", network}, "psk without end": {swarm + psk, network},
		"psk of windows": {strings.ReplaceAll(swarm+psk+"\n", "\n", "\r\n"), network},
		"psk in base64":  {"/key/swarm/psk/1.0.0/\n/base64/\n" + strings.Repeat("Dw8P", 10) + "Dw8=\n", network},
		"psk in bytes":   {"/key/swarm/psk/1.0.0/\n/bin/\n" + strings.Repeat("x", 32), network},
		"psk of zeros":   {swarm + strings.Repeat("0", 64) + "\n", ""},
		"psk explained":  {swarm + "is how the file of a private network begins, before its 64 digits", ""},
		"ring":           {ring(1, false), mints}, "ring of revocations": {ring(1, true), mints},
		"ring of four":       {ring(4, true), mints},
		"my capability.keys": {ring(12, true), mints},
		"capability.keys":    {"allium-capability-keys/1\n1 by hand\n", mints},
		"capability.txt":     {"# others have files of this name", ""},
		"ring by hand":       {"allium-capability-keys/1\n1 by hand\n", ""},
		"like a ring":        {strings.Repeat("x", len(ring(1, false))), ""}, "nothing": {"", ""},
	} {
		for _, mode := range []os.FileMode{0o600, 0o644} {
			file := filepath.Join(write(t, map[string]string{name: c.text}), name)
			info, err := os.Stat(file)
			if err := errors.Join(err, os.Chmod(file, mode)); err != nil {
				t.Fatal(err)
			}
			if got := homefiles.Key(file, mode, info.Size()); got != c.want {
				t.Errorf("%s, mode %o, %d bytes: %q, want %q", name, mode, info.Size(), got, c.want)
			}
		}
	}
}

// TestHomeByAnotherUser: another user's files make no home of a directory that all may write to.
func TestHomeByAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testkit.Missing(t, "root: files of other users are not tested")
	}
	key := newKey(t)
	for _, name := range []string{"identity.key", "capability.keys", "zones/k51x.key"} {
		text := key
		if name == "capability.keys" {
			text = "allium-capability-keys/2\n"
		}
		dir := write(t, map[string]string{name: text, "project/file": "x"})
		above := func(when, want string) {
			t.Helper()
			if got := (homefiles.Own{}).Above(filepath.Join(dir, "project", "file")); got != want {
				t.Errorf("%s %s: above is %q", name, when, got)
			}
		}
		own := func(file string, uid int) {
			t.Helper()
			if err := os.Chown(file, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
		above("of mine", dir)
		own(filepath.Join(dir, name), 12345)
		above("of another user", "")
		own(dir, 12345)
		above("of the owner of the directory", dir)
		own(filepath.Join(dir, name), 0)
		above("of mine in the directory of another user", dir)
	}
}

// TestLinksMakeNoHome: a link to a key is added as a link, and the directory with it is no home.
func TestLinksMakeNoHome(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	home, dir := write(t, map[string]string{"identity.key": key, "zones/k51x.key": key}), t.TempDir()
	for _, name := range []string{"identity.key", "zones"} {
		if err := os.Symlink(filepath.Join(home, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if homefiles.IsHome(dir, nil) {
		t.Error("it is a home")
	}
}

// TestOwn: parts of a home are known behind hard links, and keys that the home links to, where they are.
func TestOwn(t *testing.T) {
	t.Parallel()
	other := write(t, map[string]string{"secret": newKey(t), "zones/a": "x"})
	home := write(t, map[string]string{"config.toml": "", "acme/account": "x", "store/obj/ab/object": "x"})
	elsewhere := t.TempDir()
	err := errors.Join(
		os.Symlink(filepath.Join(other, "secret"), filepath.Join(home, "identity.key")),
		os.Symlink(filepath.Join(other, "zones"), filepath.Join(home, "zones")),
		os.Link(filepath.Join(home, "acme", "account"), filepath.Join(elsewhere, "account")),
		os.WriteFile(filepath.Join(elsewhere, "mine"), nil, 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	own := homefiles.Of(home)
	for path, want := range map[string]bool{
		home: true, filepath.Join(home, "store", "obj"): true, filepath.Join(elsewhere, "account"): true,
		filepath.Join(other, "secret"): true, filepath.Join(other, "zones"): true,
		filepath.Join(other, "zones", "a"): true,
		filepath.Join(elsewhere, "mine"):   false, elsewhere: false,
		filepath.Join(home, "store", "obj", "ab", "object"): false,
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := own.Has(info); got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	if above := own.Above(filepath.Join(other, "zones", "a")); above != filepath.Join(other, "zones") {
		t.Errorf("above a zone elsewhere is %q", above)
	}
	if (homefiles.Own{}).Has(nil) {
		t.Error("no home has a file")
	}
}
