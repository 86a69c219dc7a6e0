package testnet_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allium/protocols/status"
	"allium/testnet"
)

// plant writes a tree with every kind of entry.
func plant(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "alpha", "sub/b.txt": "beta", "sub/empty": ""} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a.txt", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestCompareSeesEveryDifference changes one thing at a time in a copy.
func TestCompareSeesEveryDifference(t *testing.T) {
	t.Parallel()
	if n, err := testnet.Compare(plant(t), plant(t)); err != nil || n != 6 {
		t.Fatalf("equal trees: %d entries, %v", n, err)
	}
	for what, change := range map[string]func(dir string) error{
		"a byte":       func(d string) error { return os.WriteFile(filepath.Join(d, "a.txt"), []byte("alpHa"), 0o644) },
		"a byte more":  func(d string) error { return os.WriteFile(filepath.Join(d, "a.txt"), []byte("alphas"), 0o644) },
		"a byte less":  func(d string) error { return os.WriteFile(filepath.Join(d, "a.txt"), []byte("alph"), 0o644) },
		"executable":   func(d string) error { return os.Chmod(filepath.Join(d, "a.txt"), 0o755) },
		"missing":      func(d string) error { return os.Remove(filepath.Join(d, "sub/b.txt")) },
		"one too many": func(d string) error { return os.WriteFile(filepath.Join(d, "sub/new"), nil, 0o644) },
		"renamed":      func(d string) error { return os.Rename(filepath.Join(d, "a.txt"), filepath.Join(d, "A.txt")) },
		"kind": func(d string) error {
			return swap(filepath.Join(d, "sub/empty"), func(p string) error { return os.Mkdir(p, 0o755) })
		},
		"link's target": func(d string) error {
			return swap(filepath.Join(d, "link"), func(p string) error { return os.Symlink("sub", p) })
		},
		"link to file": func(d string) error {
			return swap(filepath.Join(d, "link"),
				func(p string) error { return os.WriteFile(p, []byte("alpha"), 0o644) })
		},
	} {
		copied := plant(t)
		if err := change(copied); err != nil {
			t.Fatal(err)
		}
		if _, err := testnet.Compare(plant(t), copied); err == nil {
			t.Errorf("%s: not seen", what)
		}
	}
}

func swap(path string, make func(string) error) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return make(path)
}

// TestDemoFailsWhenItIsNotTrue changes the original while the network has it:
// the comparison must not come true.
func TestDemoFailsWhenItIsNotTrue(t *testing.T) {
	t.Parallel()
	net, err := testnet.Up(t.Context(), testnet.Options{N: 2})
	if err != nil {
		t.Fatal(err)
	}
	dir := plant(t)
	var out strings.Builder
	if err := net.Demo(t.Context(), &out, dir); err != nil {
		t.Errorf("the demonstration: %v\n%s", err, out.String())
	}
	saboteur := writerFunc(func(p []byte) (int, error) {
		if strings.HasPrefix(string(p), "fetched") {
			return len(p), os.WriteFile(filepath.Join(dir, "a.txt"), []byte("omega"), 0o644)
		}
		return len(p), nil
	})
	if err := net.Demo(t.Context(), saboteur, dir); status.Of(err) != status.Corrupt {
		t.Errorf("a demonstration over a changed tree: %v", err)
	}
	if err := net.Down(t.Context()); err != nil {
		t.Error(err)
	}
	for _, m := range net.Members {
		if _, err := os.Stat(m.Home); !os.IsNotExist(err) {
			t.Errorf("%s is still there", m.Home)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestUpRefusesSizes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, testnet.MaxNodes + 1} {
		if _, err := testnet.Up(t.Context(), testnet.Options{N: n}); status.Of(err) != status.BadRequest {
			t.Errorf("%d nodes: %v", n, err)
		}
	}
}

func TestUpStopsWhenToldTo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if net, err := testnet.Up(ctx, testnet.Options{N: 2}); status.Of(err) != status.Canceled {
		t.Errorf("got %v, %v, want canceled", net, err)
	}
}
