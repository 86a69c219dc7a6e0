package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/status"
)

// TestTokenSource: a capability comes from a private file, standard input or
// the environment, and what is refused is never repeated.
func TestTokenSource(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		name, file, env, stdin string
		want                   string
		outcome                status.Outcome
	}{
		{name: "none"},
		{name: "environment", env: " AgEd-_\n", want: "AgEd-_"},
		{name: "file", file: file("good", "AgEd\n", 0o600), env: "other", want: "AgEd"},
		{name: "read-only file", file: file("readonly", "AgEd", 0o400), want: "AgEd"},
		{name: "standard input", file: "-", stdin: "AgEd\n", env: "other", want: "AgEd"},
		{name: "file of others", file: file("others", "SECRET", 0o644), outcome: status.Forbidden},
		{name: "file of the group", file: file("group", "SECRET", 0o640), outcome: status.Forbidden},
		{name: "empty file", file: file("empty", "\n", 0o600), outcome: status.BadRequest},
		{name: "empty input", file: "-", outcome: status.BadRequest},
		{name: "two words", env: "SECRET SECRET", outcome: status.BadRequest},
		{name: "not ASCII", file: file("utf8", "SECRETé", 0o600), outcome: status.BadRequest},
		{name: "too long", env: strings.Repeat("SECRET", maxTokenText), outcome: status.BadRequest},
		{name: "no file", file: filepath.Join(dir, "absent"), outcome: status.BadRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(tokenEnv, c.env)
			a := &App{Streams: Streams{Stdin: strings.NewReader(c.stdin)}}
			got, err := Token(a, c.file)
			if got != c.want || status.Of(err) != c.outcome {
				t.Errorf("%q, %v; want %q, %s", got, err, c.want, c.outcome)
			}
			if err != nil && strings.Contains(err.Error(), "SECRET") {
				t.Errorf("the error repeats what was refused: %v", err)
			}
		})
	}
}
