package node_test

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"allium/internal/testkit"
)

// TestReaders lets programs that know nothing of allium read a directory through the gateway. rclone and wget follow
// the page's links, aria2c fetches a file in pieces, and ffprobe seeks in one.
func TestReaders(t *testing.T) {
	dir := t.TempDir()
	src := rand.NewChaCha8([32]byte{7})
	for name, size := range map[string]int{
		"empty": 0, "a&b;c#d.txt": 1, "100%.bin": 64 << 10, "sub dir/ümläut 1.txt": 64<<10 + 1, "big.bin": 3 << 20,
	} {
		p := make([]byte, size)
		_, _ = src.Read(p) // never fails
		write(t, filepath.Join(dir, name), p)
	}
	write(t, filepath.Join(dir, "one second.wav"), testkit.WAV(bytes.Repeat([]byte{128}, testkit.WAVRate)))
	n := start(t, nil)
	url := n.ID().Gateway + "/b3/" + add(t, n, dir)[0].Root.String() + "/"

	t.Run("rclone", func(t *testing.T) {
		needs(t, "rclone")
		to := t.TempDir()
		command(t, to, "rclone", "--config", filepath.Join(to, "none"), "copy", "--http-url", url, ":http:", "copy")
		sameFiles(t, filepath.Join(to, "copy"), dir)
	})
	t.Run("wget", func(t *testing.T) {
		needs(t, "wget")
		to := t.TempDir()
		command(t, to, "wget", "--no-config", "-q", "-r", "-np", "-nH", "--cut-dirs=2", "--reject-regex", `\?`, url)
		for _, page := range []string{"index.html", "sub dir/index.html"} {
			if err := os.Remove(filepath.Join(to, page)); err != nil {
				t.Fatal(err)
			}
		}
		sameFiles(t, to, dir)
	})
	t.Run("aria2c", func(t *testing.T) {
		needs(t, "aria2c")
		to := t.TempDir()
		command(t, to, "aria2c", "--no-conf", "-q", "-x3", "-s3", "-k1M", url+"big.bin")
		got, err := os.ReadFile(filepath.Join(to, "big.bin"))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, "big.bin"))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes in pieces, of %d; %v", len(got), len(want), err)
		}
	})
	t.Run("ffprobe", func(t *testing.T) {
		needs(t, "ffprobe")
		got := command(t, "", "ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0",
			url+"one%20second.wav")
		if strings.TrimSpace(got) != "1.000000" {
			t.Errorf("the sound has %q seconds", got)
		}
	})
}

// needs skips the test where a program is not installed. CI installs it.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		const why = " is not installed: whether it reads through the gateway is not tested here"
		testkit.Missing(t, program+why)
	}
}

// sameFiles fails the test where the files below got are not those below want.
func sameFiles(t *testing.T, got, want string) {
	t.Helper()
	files := func(dir string) map[string]string {
		all := map[string]string{}
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			name, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			p, err := os.ReadFile(path)
			all[name] = string(p)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	have, need := files(got), files(want)
	for name, p := range need {
		if q, ok := have[name]; !ok || q != p {
			t.Errorf("%q: there %t, %d bytes, want %d", name, ok, len(q), len(p))
		}
		delete(have, name)
	}
	for name := range have {
		t.Errorf("%q is too many", name)
	}
}
