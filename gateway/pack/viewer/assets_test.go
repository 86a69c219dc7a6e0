package viewer

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"allium/gateway/asset"
	"allium/gateway/exchange"
	"allium/internal/testkit"
	"allium/protocols/status"
)

// plain is a Transport without bounds.
type plain struct{ http.ResponseWriter }

func (p plain) Unwrap() http.ResponseWriter { return p.ResponseWriter }
func (p plain) Flush() error                { return http.NewResponseController(p.ResponseWriter).Flush() }
func (p plain) SetWriteDeadline(at time.Time) error {
	return http.NewResponseController(p.ResponseWriter).SetWriteDeadline(at)
}
func (plain) StartTransfer(int) error { return nil }
func (plain) ReleaseAdmission()       {}
func (plain) EvictFetched()           {}
func (plain) ReadTimedOut()           {}
func (plain) PassedFile() *os.File    { return nil }
func (plain) User() string            { return "" }

// ask requests an asset, and returns the answer and its body. The header is a list of names and values.
func ask(t *testing.T, method, name string, header ...string) (*httptest.ResponseRecorder, []byte, error) {
	t.Helper()
	r := httptest.NewRequest(method, AssetsPath+"x", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	w := &exchange.Response{}
	w.Begin(plain{rec})
	err := Endpoint().Serve(w, r, exchange.Input{Rest: name})
	return rec, rec.Body.Bytes(), err
}

// TestAssets requests each asset compressed, plain, by HEAD and again.
func TestAssets(t *testing.T) {
	t.Parallel()
	set := assets()
	for _, a := range set.all() {
		answer, packed, err := ask(t, http.MethodGet, a.Name, "Accept-Encoding", "br, gzip")
		if err != nil || answer.Code != http.StatusOK || answer.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %d, %v, %v", a.Name, answer.Code, answer.Header(), err)
		}
		for name, want := range map[string]string{
			"Cache-Control": exchange.Immutable, "Cross-Origin-Resource-Policy": "same-origin",
			"Vary": "Accept-Encoding", "Content-Type": a.Media, "Content-Security-Policy": a.Policy,
		} {
			if got := answer.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", a.Name, name, got, want)
			}
		}
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		unpacked, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		other, whole, err := ask(t, http.MethodGet, a.Name)
		if err != nil || !bytes.Equal(whole, unpacked) || other.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %d plain bytes, %d compressed ones, %v", a.Name, len(whole), len(unpacked), err)
		}
		if len(whole) > 2<<20/2 {
			t.Errorf("%s has %d bytes: the comment on plain is wrong", a.Name, len(whole))
		}
		tag, otherTag := answer.Header().Get("ETag"), other.Header().Get("ETag")
		if tag == otherTag || tag == "" || otherTag == "" {
			t.Errorf("%s: different bytes have the ETags %s and %s", a.Name, tag, otherTag)
		}
		sum := sha256.Sum256(whole)
		if want := "sha256-" + base64.StdEncoding.EncodeToString(sum[:]); a.Integrity != want {
			t.Errorf("%s: integrity %s, want %s", a.Name, a.Integrity, want)
		}
		answer, body, err := ask(t, http.MethodGet, a.Name, "Accept-Encoding", "gzip", "If-None-Match", tag)
		if err != nil || answer.Code != http.StatusNotModified || len(body) > 0 {
			t.Errorf("%s: asked again: %d, %d bytes, %v", a.Name, answer.Code, len(body), err)
		}
		_, _, err = ask(t, http.MethodGet, a.Name, "If-Match", `"other"`)
		if status.Of(err) != status.Precondition {
			t.Errorf("%s: another state: %v", a.Name, err)
		}
		answer, body, err = ask(t, http.MethodHead, a.Name)
		if err != nil || len(body) > 0 || answer.Header().Get("Content-Length") == "0" {
			t.Errorf("%s: HEAD: %v, %d bytes, %v", a.Name, answer.Header(), len(body), err)
		}
	}
}

// TestNoAsset requests what is no asset: files beside them, paths out of them, and the files of other versions.
func TestNoAsset(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", ".", "viewer.js", "viewer.js.gz", "../page.go", "..%2fpage.go", "viewer-0000000000000000.js",
		assets().script.Name + "/", strings.ToUpper(assets().script.Name), strings.Repeat("x", 10_000),
	} {
		_, _, err := ask(t, http.MethodGet, name)
		if status.Of(err) != status.NotFound || len(err.Error()) > 300 {
			t.Errorf("%.100q: %v", name, err)
		}
	}
}

// TestAssetsAreSmall bounds what the page adds to the program, and looks for what a strict policy forbids.
func TestAssetsAreSmall(t *testing.T) {
	t.Parallel()
	set, all := assets(), 0
	for _, a := range set.all() {
		all += len(a.Packed)
	}
	if all > 600<<10 {
		t.Errorf("the assets have %d bytes", all)
	}
	for _, a := range []*asset.Asset{set.script, set.worker} {
		whole, err := a.Plain()
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range []string{"sourceMappingURL", "new Function("} {
			if bytes.Contains(whole, []byte(bad)) {
				t.Errorf("%s contains %s", a.Name, bad)
			}
		}
		if !bytes.Contains(whole, []byte("MapLibre GL JS")) {
			t.Errorf("%s does not name its licence", a.Name)
		}
	}
	licence, err := set.licence.Plain()
	if err != nil || !bytes.Contains(licence, []byte("Redistributions in binary form")) {
		t.Errorf("the licence is %.60q, %v", licence, err)
	}
}

// TestAssetsAreBuilt makes assets/ again, from the script of the page and the npm package of the library. It needs
// the tool webbundle, which CI installs.
func TestAssetsAreBuilt(t *testing.T) {
	t.Parallel()
	testkit.Rebundled(t, filepath.Join("..", "..", ".."), func(modules string) []string {
		library := filepath.Join(modules, "maplibre-gl")
		return []string{
			"viewer.js=" + filepath.Join("script", "main.js"),
			"worker.js=" + filepath.Join(library, "dist", "maplibre-gl-csp-worker.js"),
			"maplibre-licence.txt=" + filepath.Join(library, "LICENSE.txt"),
		}
	})
}
