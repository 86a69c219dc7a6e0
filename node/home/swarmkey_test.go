package home

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/status"
)

func TestSwarmKey(t *testing.T) {
	t.Parallel()
	const head = "/key/swarm/psk/1.0.0/\n"
	secret := strings.Repeat("0a", 32)
	file := filepath.Join(t.TempDir(), "swarm.key")
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want status.Outcome
	}{
		"kubo's":             {head + "/base16/\n" + secret + "\n", 0o600, status.OK},
		"no last line break": {head + "/base16/\n" + secret, 0o400, status.OK},
		"base64":             {head + "/base64/\nCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgoKCgo=\n", 0o600, status.OK},
		"open to a group":    {head + "/base16/\n" + secret + "\n", 0o640, status.Forbidden},
		"open to all":        {head + "/base16/\n" + secret + "\n", 0o644, status.Forbidden},
		"empty":              {"", 0o600, status.BadRequest},
		"another version":    {"/key/swarm/psk/2.0.0/\n/base16/\n" + secret, 0o600, status.BadRequest},
		"short":              {head + "/base16/\n" + secret[2:], 0o600, status.BadRequest},
		"not hex":            {head + "/base16/\nx" + secret[1:], 0o600, status.BadRequest},
		"an unknown code":    {head + "/base7/\n" + secret, 0o600, status.BadRequest},
		"zeros":              {head + "/base16/\n" + strings.Repeat("00", 32), 0o600, status.BadRequest},
		"long": {head + "/base16/\n" + secret + strings.Repeat("\n",
			maxSwarmKey), 0o600, status.BadRequest},
	} {
		_ = os.Remove(file)
		if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		key, err := SwarmKey(file)
		if status.Of(err) != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
			continue
		}
		if c.want == status.OK && !bytes.Equal(key, bytes.Repeat([]byte{10}, 32)) {
			t.Errorf("%s: the key is %x", name, key)
		}
		if err != nil && (strings.Contains(err.Error(), secret[4:]) || !strings.Contains(err.Error(), file)) {
			t.Errorf("%s: the error quotes the key, or does not name the file: %v", name, err)
		}
	}
	if key, err := SwarmKey(""); key != nil || err != nil {
		t.Errorf("no file: %x, %v", key, err)
	}
	_, err := SwarmKey(file + "x")
	if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), "swarm-key new") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestNewSwarmKey(t *testing.T) {
	t.Parallel()
	file := Path(filepath.Join(t.TempDir(), "home"), SwarmKeyFile)
	first, err := NewSwarmKey(file, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewSwarmKey(file, false); status.Of(err) != status.Conflict {
		t.Errorf("a second key: %v", err)
	}
	if got, err := SwarmKey(file); err != nil || !bytes.Equal(got, first) {
		t.Errorf("read back: %v", err)
	}
	second, err := NewSwarmKey(file, true)
	if err != nil || bytes.Equal(first, second) {
		t.Errorf("replaced: %v", err)
	}
	if got, err := SwarmKey(file); err != nil || !bytes.Equal(got, second) {
		t.Errorf("read back after that: %v", err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
