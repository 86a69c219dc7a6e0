package s3

import (
	"os"
	"path/filepath"
	"testing"

	"allium/protocols/status"
)

// TestCheckCredentials: a file with keys is good; one without, one that is not there, and one that others may read.
func TestCheckCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return name
	}
	const keys = "aws_access_key_id = a\naws_secret_access_key = b\n"
	for _, c := range []struct {
		file  string
		check status.Outcome
		open  status.Outcome
	}{
		{"", status.OK, status.OK},
		{write("good", "[default]\n"+keys, 0o600), status.OK, status.OK},
		{write("open", keys, 0o644), status.OK, status.Forbidden},
		{write("other", "[other]\n"+keys, 0o600), status.BadRequest, status.OK},
		{write("half", "aws_access_key_id = a\n", 0o600), status.BadRequest, status.OK},
		{filepath.Join(dir, "none"), status.NotFound, status.NotFound},
	} {
		cfg := Config{CredentialsFile: c.file}
		outcome := func(err error) status.Outcome {
			if o, ok := status.OfFile(err); ok {
				return o
			}
			return status.Of(err)
		}
		if check, open := outcome(cfg.CheckCredentials()), outcome(cfg.OpenToOthers()); check != c.check || open != c.open {
			t.Errorf("%s: %s and %s, want %s and %s", c.file, check, open, c.check, c.open)
		}
	}
}
