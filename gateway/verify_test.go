package gateway

import (
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/bao"
)

// verifyModule returns the module of /verify.mjs, from the file in which the program has it.
func verifyModule(t *testing.T) []byte {
	t.Helper()
	f, err := os.Open("proof/assets/verify.mjs.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	module, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return module
}

// TestModule: the module is cached by its own tag.
func TestModule(t *testing.T) {
	t.Parallel()
	n := start(t)
	url := n.Addrs().Gateway + "/verify.mjs"
	module := verifyModule(t)
	tag := `"` + b3.Sum(module).Hex()[:32] + `"`
	a := do(t, "GET", url)
	if a.StatusCode != http.StatusOK || a.body != string(module) ||
		a.Header.Get("Content-Type") != "text/javascript; charset=utf-8" || a.Header.Get("ETag") != tag {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	if a := do(t, "GET", url, "If-None-Match", tag); a.StatusCode != http.StatusNotModified || a.body != "" {
		t.Errorf("known: %s %v", a.Status, a.Header)
	}
}

// TestVerifyInBrowser runs the module in Chromium, from a page of another origin,
// against a gateway and against one that lies.
func TestVerifyInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!doctype html><title>app</title><link rel=icon href=data:,>"))
	}))
	defer page.Close()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.CORSOrigins = []string{page.URL} })
	base := n.Addrs().Gateway
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		how, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		b := []byte(do(t, "GET", base+strings.TrimPrefix(r.URL.RequestURI(), "/"+how)).body)
		switch how {
		case "first":
			b[min(1000, len(b)-1)] ^= 1
		case "middle":
			b[len(b)/2] ^= 1
		case "last":
			b[len(b)-1] ^= 1
		case "size":
			binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)+1)
		case "short":
			b = b[:len(b)-1]
		case "long":
			b = append(b, 0)
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Content-Type", bao.MediaType)
		if how == "html" {
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = w.Write(b)
	}))
	defer liar.Close()
	b := openBrowser(t)
	b.do(t, chromedp.Navigate(page.URL))
	const script = `(async () => {
	const m = await import(%q);
	const hex = (p) => m.hash(new Uint8Array(p));
	const run = async (url, options) => {
		let n = 0;
		try {
			const parts = [];
			const body = (await m.verifiedFetch(url, options)).body;
			for await (const p of body) { parts.push(p); n += p.length; }
			return JSON.stringify({n, hash: "b3:" + hex(await new Blob(parts).arrayBuffer())});
		} catch (err) { return JSON.stringify({n, error: err.name + ": " + err.message}); }
	};
	%s
})()`
	eval := func(js string) string {
		t.Helper()
		return see(t, b, chromedp.Evaluate[string](fmt.Sprintf(script, base+"/verify.mjs", js), await))
	}
	type result struct {
		N     int64
		Hash  string
		Error string
	}
	fetch := func(url, options string) (r result) {
		t.Helper()
		if err := json.Unmarshal([]byte(eval(fmt.Sprintf("return await run(%q, %s);", url, options))), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}

	raw, err := os.ReadFile("../protocols/b3/testdata/blake3_test_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Cases []struct {
			Len  int    `json:"input_len"`
			Hash string `json:"hash"`
		}
	}
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors.Cases) == 0 {
		t.Fatal(err)
	}
	for _, c := range vectors.Cases {
		got := eval(fmt.Sprintf("return m.hash(Uint8Array.from({length: %d}, (_, i) => i %% 251));", c.Len))
		if got != c.Hash[:64] {
			t.Errorf("%d bytes hash to %s, want %s", c.Len, got, c.Hash[:64])
		}
	}

	for _, size := range []int{0, 1, 1024, b3.GroupSize - 1, b3.GroupSize, b3.GroupSize + 1, 5*b3.GroupSize + 7, 3 << 20} {
		data := patterned(size)
		root := n.objects.put(data)
		if r := fetch(base+"/o/"+root.String(), "{}"); r.N != int64(size) || r.Hash != root.String() {
			t.Errorf("%d bytes: %+v", size, r)
		}
	}
	const size = 5*b3.GroupSize + 7
	data := patterned(size)
	root := n.objects.put(data)
	for options, want := range map[string][]byte{
		"{range: {start: 70000, end: 70010}}":       data[70000:70010],
		"{range: {start: 65536, end: 131072}}":      data[65536:131072],
		"{range: {end: 1}}":                         data[:1],
		"{range: {start: 100}}":                     data[100:],
		"{range: {start: -10}}":                     data[size-10:],
		"{range: {start: 200000, end: 9999999999}}": data[200000:],
	} {
		if r := fetch(base+"/o/"+root.String(), options); r.N != int64(len(want)) || r.Hash != b3.Sum(want).String() {
			t.Errorf("%s: %+v", options, r)
		}
	}
	for how, most := range map[string]int64{
		"first": 0, "middle": 3 * b3.GroupSize, "last": 5 * b3.GroupSize, "size": 5 * b3.GroupSize,
		"short": 5 * b3.GroupSize, "long": size, "html": 0,
	} {
		r := fetch(liar.URL+"/"+how+"/o/"+root.String(), "{}")
		if r.Error == "" || r.N > most || how != "html" && !strings.HasPrefix(r.Error, "VerifyError") {
			t.Errorf("%s: %+v", how, r)
		}
	}
	if r := fetch(base+"/o/b3:nothing", "{}"); !strings.HasPrefix(r.Error, "TypeError") {
		t.Errorf("no address: %+v", r)
	}
	if r := fetch(base+"/o/"+root.String(), "{range: {start: 5, end: 5}}"); !strings.HasPrefix(r.Error, "RangeError") {
		t.Errorf("no range: %+v", r)
	}
	b.quiet(t, "the module")
}
