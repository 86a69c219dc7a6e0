package main

import (
	"archive/zip"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdHome unpacks a home that an earlier version wrote: home ARCHIVE DIR.
func cmdHome(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: home ARCHIVE DIR")
	}
	z, err := zip.OpenReader(filepath.Join("testdata", args[0]))
	ts.Check(err)
	defer z.Close()
	dir := ts.MkAbs(args[1])
	ts.Check(os.CopyFS(dir, z))
	ts.Check(filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600) // what is unpacked may be read by all, keys must not
		if d.IsDir() {
			mode = 0o700
		}
		return os.Chmod(name, mode)
	}))
}
