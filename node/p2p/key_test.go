package p2p

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/protocols/status"
)

func TestKeyIsCreatedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", "key")
	first, err := LoadOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := LoadOrCreateKey(path)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Equals(again) {
		t.Error("the second load gives another key")
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", name, got, want)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("%d files are left, want the key alone", len(left))
	}
}

func TestKeyCreatedByMany(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	keys := make([]crypto.PrivKey, 16)
	errs := make([]error, len(keys))
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() { keys[i], errs[i] = LoadOrCreateKey(path) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if !k.Equals(keys[0]) {
			t.Fatal("two callers got different keys")
		}
	}
}

func TestKeyRefusals(t *testing.T) {
	rsa, _, err := crypto.GenerateRSAKeyPair(2048, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rsaPB, err := crypto.MarshalPrivateKey(rsa)
	if err != nil {
		t.Fatal(err)
	}
	good := filepath.Join(t.TempDir(), "good")
	if _, err := LoadOrCreateKey(good); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, content string
		mode          os.FileMode
		want          status.Outcome
		says          string
	}{
		{"group readable", string(raw), 0o640, status.Forbidden, "chmod 600"},
		{"world readable", string(raw), 0o604, status.Forbidden, "chmod 600"},
		{"empty", "", 0o600, status.Corrupt, "empty"},
		{"not base64", "hello, world\n", 0o600, status.Corrupt, "base64"},
		{"truncated", string(raw[:40]), 0o600, status.Corrupt, "private key"},
		{"another type", base64.StdEncoding.EncodeToString(rsaPB), 0o600, status.Corrupt, "RSA"},
		{"huge", strings.Repeat("A", maxKeyFile+1), 0o600, status.Corrupt, "bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(tc.content), tc.mode); err != nil {
				t.Fatal(err)
			}
			_, err := LoadOrCreateKey(path)
			if status.Of(err) != tc.want {
				t.Fatalf("got %v (%s), want %s", err, status.Of(err), tc.want)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q names neither the file nor %q", err, tc.says)
			}
			if now, _ := os.ReadFile(path); string(now) != tc.content {
				t.Error("the file was changed")
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		if _, err := LoadOrCreateKey(t.TempDir()); status.Of(err) != status.Corrupt {
			t.Errorf("got %v", err)
		}
	})
}
