package capabilities

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/capability"
	"allium/protocols/status"
)

// TestCapabilityDamage: whatever happens to one of the files of capabilities, a
// revoked one is good neither at a start nor while a node runs.
func TestCapabilityDamage(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	good, gone := mintIn(t, home), mintIn(t, home)
	what, err := capability.RevokeToken(gone)
	if err != nil {
		t.Fatal(err)
	}
	if err := Open(home).Revoke(t.Context(), what); err != nil {
		t.Fatal(err)
	}
	c, _ := verifierOf(t, home)
	if c.refusal(t, good) != "" && c.refusal(t, good) != "ok" || c.refusal(t, gone) != string(capability.Revoked) {
		t.Fatalf("before: %q, %q", c.refusal(t, good), c.refusal(t, gone))
	}
	whole := map[string][]byte{}
	for _, name := range []string{RingFile, revokedFile} {
		p, err := os.ReadFile(filepath.Join(home, name))
		if err != nil {
			t.Fatal(err)
		}
		whole[name] = p
	}
	for name, p := range whole {
		file := filepath.Join(home, name)
		half := p[:strings.LastIndex(string(p[:len(p)-1]), "\n")+1] // without the last line
		for how, other := range map[string][]byte{"emptied": {}, "cut": half, "deleted": nil, "swapped": whole[RingFile]} {
			if how == "swapped" && name == RingFile {
				other = whole[revokedFile]
			}
			err := os.Remove(file)
			if other != nil {
				err = os.WriteFile(file, other, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := c.read(); err == nil && how != "deleted" {
				t.Errorf("%s %s: read by a node that runs", name, how)
			}
			if got := c.refusal(t, gone); got == "" || got == "ok" {
				t.Errorf("%s %s: a revoked capability is good while the node runs", name, how)
			}
			fresh, err := New(home, aKey(t), c.log, nil, nil)
			switch {
			case err != nil && (status.Of(err) != status.Corrupt ||
				!strings.Contains(err.Error(), file) && !strings.Contains(err.Error(), home)):
				t.Errorf("%s %s: %v", name, how, err)
			case err == nil && (name == revokedFile || how != "deleted"):
				t.Errorf("%s %s: a node starts", name, how)
			case err == nil:
				if got := fresh.refusal(t, gone); got == "" || got == "ok" {
					t.Errorf("%s %s: a revoked capability is good after a start", name, how)
				}
			}
			if err := os.WriteFile(file, p, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.read(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
