package bundle_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"allium/internal/testkit"
)

// TestTypeScript: a second reader, in TypeScript and with a BLAKE3 of its own, reads the golden bundles as this one
// does, and refuses the broken ones.
func TestTypeScript(t *testing.T) {
	t.Parallel()
	tools, err := filepath.Abs("../../../tools/bundle")
	if err != nil {
		t.Fatal(err)
	}
	node, err := exec.LookPath("node")
	if err != nil {
		testkit.Missing(t, "needs node: whether the reader of bundles in TypeScript reads them is not tested")
	}
	compiler := filepath.Join(tools, "node_modules", "typescript", "bin", "tsc")
	if _, err := os.Stat(compiler); err != nil {
		testkit.Missing(t, "TypeScript is not installed: whether its reader of bundles reads them is not tested; "+
			"run `make bin/tools/bundle`")
	}
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "package.json"), []byte(`{"type":"module"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{compiler, "--project", tools, "--outDir", out},
		{filepath.Join(out, "check.js"), "testdata/vectors.json"},
	} {
		if said, err := exec.CommandContext(t.Context(), node, args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, said)
		}
	}
}
