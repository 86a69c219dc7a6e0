package gateway

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"allium/gateway/policy"
	"allium/gateway/server"
	"allium/protocols/b3"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// someFolder is a tree with a little of everything.
func someFolder() map[string]string {
	long := strings.Repeat("long-", 30)
	return map[string]string{
		"a.txt": "hello", "d/": "", "d/run.sh": "#!/bin/sh\n", "d/empty": "", "d/deep/er/x": strings.Repeat("x", 512),
		"d/link": "-> run.sh", "été/naïve \U0001F9C5": "onion", long + "/" + long: "long", "same": "hello",
		"big": strings.Repeat("0123456789abcdef", 20_000), `win\dows`: "a backslash",
	}
}

// holdable is a folder that a zip can hold too.
func holdable() map[string]string {
	files := someFolder()
	delete(files, `win\dows`)
	return files
}

// folderURL returns the URL of a directory in another form.
func folderURL(n *testNode, root b3.Root, query string) string {
	return n.Addrs().Gateway + "/b3/" + root.String() + "/?" + query
}

// unpacked returns a line for each entry of an archive.
func unpacked(t *testing.T, format string, p []byte) map[string]string {
	t.Helper()
	got := map[string]string{}
	if format == "tar" {
		in := tar.NewReader(bytes.NewReader(p))
		for {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				return got
			}
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(in)
			if err != nil || !h.ModTime.IsZero() && h.ModTime.Unix() != 0 || h.Uid+h.Gid != 0 {
				t.Errorf("%+v, %v", h, err)
			}
			got[h.Name] = fmt.Sprintf("%o %s%s", h.Mode, h.Linkname, body)
		}
	}
	z, err := zip.NewReader(bytes.NewReader(p), int64(len(p)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r) // checks the checksum
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		got[f.Name] = fmt.Sprintf("%o %s", f.Mode().Perm(), body)
	}
	return got
}

// TestArchives: an archive has what the directory has, its bytes follow from the address, and each range is a part of
// them.
func TestArchives(t *testing.T) {
	t.Parallel()
	n := start(t)
	files := holdable()
	root := n.objects.tree(t, files)
	for _, format := range []string{"tar", "zip"} {
		all := do(t, "GET", folderURL(n, root, "format="+format))
		tag := all.Header.Get("Etag")
		if all.StatusCode != http.StatusOK || all.Header.Get("Content-Length") != strconv.Itoa(len(all.body)) ||
			tag != `"`+root.String()+";"+format+`=1"` ||
			all.Header.Get("Content-Disposition") != "attachment; filename*=UTF-8''b3-"+root.Hex()[:16]+"."+format {
			t.Fatalf("%s %v", all.Status, all.Header)
		}
		got := unpacked(t, format, []byte(all.body))
		for name, want := range files {
			mode := "644 "
			if strings.HasSuffix(name, ".sh") {
				mode = "755 "
			}
			target, link := strings.CutPrefix(want, "-> ")
			if link {
				mode = "777 "
			}
			if strings.HasSuffix(name, "/") {
				mode = "755 "
			}
			if got[name] != mode+target {
				t.Errorf("%s: %s is %.40q", format, name, got[name])
			}
		}
		if got["d/deep/er/"] != "755 " || len(got) != len(files)+4 {
			t.Errorf("%s: %d entries", format, len(got))
		}
		url := folderURL(n, root, "format="+format)
		if head := do(t, "HEAD", url, "Range", "bytes=0-3"); head.StatusCode != http.StatusOK ||
			head.ContentLength != int64(len(all.body)) {
			t.Errorf("HEAD: %s %v", head.Status, head.Header)
		}
		if again := do(t, "GET", url, "If-None-Match", tag); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s", again.Status)
		}
		if again := do(t, "GET", url, "If-Match", `"other"`); again.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("%s", again.Status)
		}
		for i := range 200 {
			from := rand.IntN(len(all.body))
			to := from + rand.IntN(min(len(all.body)-from, 1<<(i%19)))
			part := do(t, "GET", url, "Range", fmt.Sprintf("bytes=%d-%d", from, to), "If-Range", tag)
			if part.StatusCode != http.StatusPartialContent || part.body != all.body[from:to+1] ||
				part.Header.Get("Content-Range") != fmt.Sprintf("bytes %d-%d/%d", from, to, len(all.body)) {
				t.Fatalf("%s %d-%d: %s, %d bytes", format, from, to, part.Status, len(part.body))
			}
		}
		if part := do(t, "GET", url, "Range", "bytes=-9", "If-Range", `"other"`); part.body != all.body {
			t.Errorf("%s", part.Status)
		}
		if part := do(t, "GET", url, "Range", fmt.Sprintf("bytes=%d-", len(all.body))); part.StatusCode !=
			http.StatusRequestedRangeNotSatisfiable {
			t.Errorf("%s", part.Status)
		}
	}
	sub := do(t, "GET", n.Addrs().Gateway+"/b3/"+root.String()+"/%C3%A9t%C3%A9/?format=tar")
	if sub.Header.Get("Content-Disposition") != "attachment; filename*=UTF-8''%C3%A9t%C3%A9.tar" {
		t.Errorf("%v", sub.Header)
	}
}

// TestArchiveIsRefused: what cannot be sent is refused before the first byte.
func TestArchiveIsRefused(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Folders.MaxEntries, c.Folders.MaxBytes = 100, 1<<20 })
	bomb := n.objects.tree(t, map[string]string{"x": strings.Repeat("x", 1<<16)})
	for range 60 { // 2^60 files
		bomb = n.objects.pair(t, bomb)
	}
	cases := map[string]struct {
		root   b3.Root
		format string
		code   int
	}{
		"bomb":                 {bomb, "tar", 413},
		"bomb zip":             {bomb, "zip", 413},
		"bundle":               {bomb, "bundle", 413},
		"bytes":                {n.objects.tree(t, map[string]string{"x": strings.Repeat("x", 1<<20+1)}), "tar", 413},
		"backslash":            {n.objects.tree(t, map[string]string{`..\..\x`: ""}), "zip", 415},
		"drive":                {n.objects.tree(t, map[string]string{`C:x`: ""}), "zip", 415},
		"absolute":             {n.objects.tree(t, map[string]string{"l": "-> /etc/passwd"}), "zip", 415},
		"leads out":            {n.objects.tree(t, map[string]string{"l": "-> ../x"}), "tar", 415},
		"backslashes in a tar": {n.objects.tree(t, map[string]string{`..\..\x`: ""}), "tar", 200},
		"inside":               {n.objects.tree(t, map[string]string{"d/l": "-> ../d"}), "zip", 200},
		"empty":                {n.objects.tree(t, nil), "zip", 200},
		"empty tar":            {n.objects.tree(t, nil), "tar", 200},
		"other":                {n.objects.tree(t, nil), "rar", 400},
	}
	for name, c := range cases {
		got := do(t, "GET", folderURL(n, c.root, "format="+c.format))
		if got.StatusCode != c.code {
			t.Errorf("%s: %s %.200s", name, got.Status, got.body)
		}
		if got.StatusCode == http.StatusOK && c.format != "rar" {
			unpacked(t, c.format, []byte(got.body))
		}
	}
}

// pair returns a directory that has another one twice.
func (f *fakeObjects) pair(t testing.TB, dir b3.Root) b3.Root {
	t.Helper()
	f.mu.Lock()
	size := int64(len(f.m[dir].data))
	f.mu.Unlock()
	return f.entries(t, manifest.Entry{Name: "a", Kind: manifest.Directory, Root: dir, Size: size},
		manifest.Entry{Name: "b", Kind: manifest.Directory, Root: dir, Size: size})
}

// entries returns a directory with these entries.
func (f *fakeObjects) entries(t testing.TB, all ...manifest.Entry) b3.Root {
	t.Helper()
	b := manifest.NewBuilder(func(_ context.Context, p []byte) (b3.Root, error) { return f.put(bytes.Clone(p)), nil })
	for _, e := range all {
		if err := b.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	root, _, err := b.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestArchiveIsCut: an entry whose size is false, and bytes that fail, end the answer, which is cut.
func TestArchiveIsCut(t *testing.T) {
	t.Parallel()
	n := start(t)
	big := n.objects.put(bytes.Repeat([]byte("big"), 100_000))
	file := func(name string, root b3.Root, size int64) manifest.Entry {
		return manifest.Entry{Name: name, Root: root, Size: size}
	}
	for _, size := range []int64{4, 6, 1 << 30} {
		root := n.objects.entries(t, file("a", big, 300_000), file("b", n.objects.put([]byte("hello")), size))
		for _, format := range []string{"tar", "zip"} {
			r, err := http.Get(folderURL(n, root, "format="+format))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			if r.StatusCode != http.StatusOK || err == nil || int64(len(got)) >= r.ContentLength {
				t.Errorf("%s %d: %s, %d of %d bytes, %v", format, size, r.Status, len(got), r.ContentLength, err)
			}
		}
		alone := n.objects.entries(t, file("b", n.objects.put([]byte("hello")), size))
		if got := do(t, "GET", folderURL(n, alone, "format=tar")); got.StatusCode != http.StatusBadGateway {
			t.Errorf("%d alone: %s", size, got.Status) // before the first byte
		}
	}
	for _, e := range []manifest.Entry{file("x", b3.Sum([]byte("hello")), 0), file("x", b3.Sum(nil), 5)} {
		root := n.objects.entries(t, e)
		if got := do(t, "GET", folderURL(n, root, "format=zip")); got.StatusCode != http.StatusBadGateway {
			t.Errorf("%+v: %s", e, got.Status)
		}
	}
}

// deniedThings is a filter that denies an object and a path.
type deniedThings struct {
	policy.AllowAll
	root b3.Root
	path string
}

func (d deniedThings) Object(root b3.Root) error {
	if root == d.root {
		return status.Errorf(status.Denied, "the object is denied")
	}
	return nil
}

func (d deniedThings) Path(_ b3.Root, path string) error {
	if d.path != "" && path == d.path {
		return status.Errorf(status.Denied, "the path is denied")
	}
	return nil
}

// TestArchiveIsDenied: an archive with something that the denylist names is denied before its first byte.
func TestArchiveIsDenied(t *testing.T) {
	t.Parallel()
	for _, denied := range []deniedThings{{root: b3.Sum([]byte("onion"))}, {path: "d/deep/er/x"}, {path: "d/link"}} {
		n := startWith(t, hooks{deps: func(d *Deps) { d.Denylist = denied }})
		root := n.objects.tree(t, holdable())
		for _, format := range []string{"tar", "zip", "bundle"} {
			got := do(t, "GET", folderURL(n, root, "format="+format))
			if got.StatusCode != http.StatusUnavailableForLegalReasons {
				t.Errorf("%+v: %s %s", denied, format, got.Status)
			}
		}
	}
}

// TestRemoteArchive: manifests that are not here are fetched several at once, under a permit, and the answer has what
// one of local objects has.
func TestRemoteArchive(t *testing.T) {
	t.Parallel()
	local, remote := start(t), start(t)
	files := holdable()
	for i := range 100 {
		files[fmt.Sprintf("many/%d/%d/x", i%10, i)] = fmt.Sprint(i)
	}
	root := local.objects.tree(t, files)
	remote.objects.tree(t, files)
	for _, o := range remote.objects.m {
		o.remote = true
	}
	for _, format := range []string{"tar", "zip", "bundle"} {
		want := do(t, "GET", folderURL(local, root, "format="+format))
		got := do(t, "GET", folderURL(remote, root, "format="+format))
		if got.StatusCode != http.StatusOK || got.body != want.body {
			t.Errorf("%s: %s, %d bytes, not %d", format, got.Status, len(got.body), len(want.body))
		}
		cached := do(t, "GET", folderURL(remote, root, "format="+format), "Cache-Control", "only-if-cached")
		if cached.StatusCode != http.StatusPreconditionFailed {
			t.Errorf("%s", cached.Status)
		}
	}
}
