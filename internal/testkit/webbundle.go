package testkit

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// WebModules returns the directory of the npm packages that scripts of pages import, and the tool that bundles them.
// root is the directory of the repository. It skips a test where they are not installed; CI has them.
func WebModules(t *testing.T, root string) (modules, tool string) {
	t.Helper()
	modules = filepath.Join(root, "tools", "webbundle", "node_modules")
	tool = filepath.Join(root, "bin", "tools", "webbundle")
	_, err := os.Stat(tool)
	if _, other := os.Stat(modules); err != nil || other != nil {
		Missing(t, "webbundle is not installed: whether the scripts of pages are those of their sources is not tested "+
			"here; run `make bin/tools/webbundle`")
	}
	return modules, tool
}

// Rebundled makes the directory assets again, from what is below script, and fails the test for a file that differs.
// files returns the arguments of webbundle beside the options.
func Rebundled(t *testing.T, root string, files func(modules string) []string) {
	t.Helper()
	modules, tool := WebModules(t, root)
	err := filepath.WalkDir("script", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() { // go test keeps a result until a file changes that the test itself has read
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	args := append([]string{"-modules", modules, "-out", out}, files(modules)...)
	if said, err := exec.CommandContext(t.Context(), tool, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	kept, made := fileNames(t, "assets"), fileNames(t, out)
	if !slices.Equal(kept, made) {
		t.Errorf("assets/ has %q, and %q are made", kept, made)
	}
	for _, name := range made {
		want, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join("assets", name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("assets/%s is not what its sources give: `make web` writes it (%v)", name, err)
		}
	}
}

// fileNames returns the names in a directory.
func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
