package testkit

import (
	"io/fs"
	"os"
	"testing"
)

// Files returns the contents of the files below dir by their paths.
func Files(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	tree := os.DirFS(dir)
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		p, err := fs.ReadFile(tree, path)
		files[path] = string(p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
