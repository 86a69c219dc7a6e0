package node_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"allium/internal/testkit"
)

// TestReaders lets programs that know nothing of allium read a directory through the gateway. Most of them follow the
// links of its listing, aria2c fetches a file in pieces, and ffprobe and GDAL seek in files.
func TestReaders(t *testing.T) {
	dir := t.TempDir()
	src := rand.NewChaCha8([32]byte{7})
	for name, size := range map[string]int{
		"empty": 0, "a&b;c#d.txt": 1, "100%.bin": 64 << 10, "sub dir/ümläut 1.txt": 64<<10 + 1, "big.bin": 3 << 20,
		"c++/a+b.txt": 2, "c++/x:y = 'z'?.txt": 3, "@scope/name": 4,
	} {
		p := make([]byte, size)
		_, _ = src.Read(p) // never fails
		write(t, filepath.Join(dir, name), p)
	}
	write(t, filepath.Join(dir, "README.md"), []byte("# For people\n\n[x](big.bin) [y](sub%20dir/) ![z](empty)\n"))
	write(t, filepath.Join(dir, "one second.wav"), testkit.WAV(bytes.Repeat([]byte{128}, testkit.WAVRate)))
	n := start(t, nil)
	base := n.ID().Gateway + "/b3/" + add(t, n, dir)[0].Root.String() + "/"

	t.Run("rclone", func(t *testing.T) {
		t.Parallel()
		needs(t, "rclone")
		to := t.TempDir()
		command(t, to, "rclone", "--config", filepath.Join(to, "none"), "copy", "--http-url", base, ":http:", "copy")
		sameFiles(t, filepath.Join(to, "copy"), dir)
	})
	for program, args := range map[string][]string{
		"wget": {"--no-config"}, "wget2": {"--no-config", "--no-hsts", "--no-ocsp"},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			needs(t, program)
			to := t.TempDir()
			command(t, to, program, append(args, "-q", "-m", "-np", "-nH", "--cut-dirs=2", base)...)
			for _, page := range []string{"index.html", "sub dir/index.html", "c++/index.html", "@scope/index.html"} {
				if err := os.Remove(filepath.Join(to, page)); err != nil {
					t.Fatal(err)
				}
			}
			sameFiles(t, to, dir)
		})
	}
	t.Run("lftp", func(t *testing.T) {
		t.Parallel()
		needs(t, "lftp")
		to := t.TempDir()
		command(t, to, "lftp", "--norc", "-c", "open "+base+"; mirror . copy")
		sameFiles(t, filepath.Join(to, "copy"), dir)
	})
	t.Run("fsspec", func(t *testing.T) {
		t.Parallel()
		python, to := systemPython(t, "fsspec", "aiohttp", "requests"), t.TempDir()
		command(t, to, python, "-c", readByFsspec, base, "copy")
		sameFiles(t, filepath.Join(to, "copy"), dir)
	})
	t.Run("httpdirfs", func(t *testing.T) {
		t.Parallel()
		needs(t, "httpdirfs")
		sameFiles(t, mounted(t, base), dir, "empty") // httpdirfs shows no empty files
	})
	t.Run("GDAL", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("gdal_translate"); err != nil {
			// Not a fault in CI either: GDAL is too large to be installed for one test.
			t.Skip("gdal-bin is not installed: whether GDAL reads through the gateway is not tested")
		}
		readMaps(t, n)
	})
	t.Run("aria2c", func(t *testing.T) {
		t.Parallel()
		needs(t, "aria2c")
		to := t.TempDir()
		command(t, to, "aria2c", "--no-conf", "-q", "-x3", "-s3", "-k1M", base+"big.bin")
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
		t.Parallel()
		needs(t, "ffprobe")
		got := command(t, "", "ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0",
			base+"one%20second.wav")
		if strings.TrimSpace(got) != "1.000000" {
			t.Errorf("the sound has %q seconds", got)
		}
	})
}

// readByFsspec copies all files below argv[1] to the directory argv[2]. fsspec joins links as text and decodes none.
const readByFsspec = `
import fsspec, os, sys, urllib.parse
base, to = sys.argv[1:]
fs = fsspec.filesystem("http")
assert fs.glob(base + "*.bin")
for url in fs.find(base):
    path = os.path.join(to, urllib.parse.unquote(url[len(base):]))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    fs.get_file(url, path)
`

// systemPython returns a Python that has modules of Debian's packages.
func systemPython(t *testing.T, modules ...string) string {
	t.Helper()
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import "+strings.Join(modules, ", ")).Run() == nil {
			return python
		}
	}
	testkit.Missing(t, fmt.Sprintf("python3 has no %s: whether they read through the gateway is not tested here",
		strings.Join(modules, ", ")))
	return ""
}

// mounted returns a directory where httpdirfs shows a URL until the test ends.
func mounted(t *testing.T, url string) string {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		// Not a fault in CI either: many containers do not permit it.
		t.Skipf("this machine mounts no file systems (%v): whether httpdirfs reads through the gateway is not tested",
			err)
	}
	fuse.Close()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "httpdirfs", "-f", url, dir)
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "XDG_CONFIG_HOME="+t.TempDir())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // it unmounts
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Cancel(); <-ended })
	testkit.Eventually(t, "the mount", func() bool {
		select {
		case <-ended:
			t.Fatalf("httpdirfs ended: %s", &out)
		default:
		}
		entries, err := os.ReadDir(dir)
		return err == nil && len(entries) > 0
	})
	return dir
}

// readMaps opens a directory of shapefiles and reads a window of a large raster with GDAL.
func readMaps(t *testing.T, n *running) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "lake.geojson"), []byte(`{"type":"FeatureCollection","features":[{"type":"Feature",`+
		`"properties":{"i":1},"geometry":{"type":"Point","coordinates":[1,2]}}]}`))
	maps := filepath.Join(dir, "maps")
	write(t, filepath.Join(maps, "readme.txt"), nil)
	command(t, dir, "ogr2ogr", "-f", "ESRI Shapefile", filepath.Join(maps, "lakes + rivers"), "lake.geojson")
	command(t, dir, "gdal_create", "-q", "-of", "GTiff", "-outsize", "2048", "2048", "-burn",
		"7", "-a_srs", "EPSG:4326",
		"-a_ullr", "0", "10", "10", "0", "raster.tif")
	command(t, dir, "gdal_translate", "-q", "-of", "COG", "raster.tif", filepath.Join(maps, "raster.tif"))
	gateway, err := url.Parse(n.ID().Gateway)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(gateway)
	counted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	defer counted.Close()
	base := "/vsicurl/" + counted.URL + "/b3/" + add(t, n, maps)[0].Root.String()
	if got := command(t, dir, "ogrinfo", "-ro", "-so", "-al", base+"/lakes%20+%20rivers"); !strings.Contains(got,
		"Feature Count: 1") {
		t.Errorf("the directory of shapefiles: %s", got)
	}
	requests.Store(0)
	for to, from := range map[string]string{"near.tif": maps + "/raster.tif", "far.tif": base + "/raster.tif"} {
		command(t, dir, "gdal_translate", "-q", "-srcwin", "900", "900", "300", "300", from, to)
	}
	near, err := os.ReadFile(filepath.Join(dir, "near.tif"))
	far, farErr := os.ReadFile(filepath.Join(dir, "far.tif"))
	if err != nil || farErr != nil || !bytes.Equal(near, far) {
		t.Errorf("a window has %d bytes, %d through the gateway; %v, %v", len(near), len(far), err, farErr)
	}
	if n := requests.Load(); n > 12 {
		t.Errorf("a window takes %d requests", n)
	}
}

// needs skips the test where a program is not installed. CI installs it.
func needs(t *testing.T, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		const why = " is not installed: whether it reads through the gateway is not tested here"
		testkit.Missing(t, program+why)
	}
}

// sameFiles fails the test where the files below got are not those below want. The program does not show those of but.
func sameFiles(t *testing.T, got, want string, but ...string) {
	t.Helper()
	have, need := testkit.Files(t, got), testkit.Files(t, want)
	for _, name := range but {
		delete(need, name)
	}
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
