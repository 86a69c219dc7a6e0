package testnet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allium/testnet/script"
)

// parallel bounds the networks of the tests that are up at one time.
var parallel = make(chan struct{}, 3) // bound: networks at one time

// short are the scenarios that are played also when there is little time.
var short = []string{"full-disk", "kill-restart", "liar-alone"}

func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for at, name := range files {
		title := strings.TrimSuffix(filepath.Base(name), ".txt")
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && !slices.Contains(short, title) {
				t.Skip("short")
			}
			playFile(t, name, PlayOptions{Seed: uint64(100 + at)})
		})
	}
}

// playFile plays a scenario with identities of its own, so that two networks of
// one test that get each other's ports do not take the other for theirs.
func playFile(t *testing.T, name string, o PlayOptions) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := script.ParseFile(name, text)
	if err != nil {
		t.Fatal(err)
	}
	parallel <- struct{}{}
	defer func() { <-parallel }()
	o.Report = func(e Event) { t.Logf("%7.0f ms  %s  %s", e.TookMS, e.Step, e.Said) }
	if err := Play(t.Context(), f, o); err != nil {
		t.Error(err)
	}
}
