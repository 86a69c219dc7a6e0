package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"allium/testnet"
	"allium/testnet/script"
)

// scenariosAtOnce is how many networks of processes are up at one time.
const scenariosAtOnce = 3

// TestScenariosInProcesses plays every scenario of package testnet, whose own
// tests play them in one process, with a process of this program for each node.
func TestScenariosInProcesses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("short")
	}
	binary, err := exec.LookPath("allium")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("../../testnet/testdata/*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	places := make(chan struct{}, scenariosAtOnce) // bound: scenariosAtOnce
	for at, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := script.ParseFile(name, content)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			places <- struct{}{}
			defer func() { <-places }()
			// Identities of its own, so that two networks that get each other's ports do
			// not take the other for theirs.
			o := testnet.PlayOptions{Binary: binary, Seed: uint64(300 + at)}
			o.Report = func(e testnet.Event) { t.Logf("%7.0f ms  %s  %s", e.TookMS, e.Step, e.Said) }
			if err := testnet.Play(t.Context(), f, o); err != nil {
				t.Error(err)
			}
		})
	}
}
