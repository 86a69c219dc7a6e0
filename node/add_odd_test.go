package node_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"allium/gateway/api"
	"allium/node"
	"allium/node/config"
	"allium/node/files"
	"allium/node/homefiles"
	"allium/node/p2p"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// offline opens a store of its own.
func offline(t *testing.T) *node.Offline {
	t.Helper()
	off, err := node.OpenOffline(t.Context(), t.TempDir(), config.Default(p2p.Testnet))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := off.Close(); err != nil {
			t.Error(err)
		}
	})
	return off
}

// tarFile is an entry of a tar: a directory when its name ends with a slash, a
// link when it has one.
type tarFile struct {
	name, data, link string
	kind             byte
	mode             int64
}

func tarOf(t testing.TB, files ...tarFile) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Typeflag: f.kind, Linkname: f.link,
			Mode: 0o644 | f.mode, Size: int64(len(f.data))}
		switch {
		case f.kind != 0:
		case strings.HasSuffix(f.name, "/"):
			h.Typeflag = tar.TypeDir
		case f.link != "":
			h.Typeflag = tar.TypeSymlink
		default:
			h.Typeflag = tar.TypeReg
		}
		if f.kind == tar.TypeXGlobalHeader {
			h = &tar.Header{Typeflag: f.kind, PAXRecords: map[string]string{"comment": "a commit"}}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(f.data)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// addTar adds a tar of any order.
func addTar(t testing.TB, off *node.Offline, p []byte, onBad api.OnBadEntry) (all []api.Added, err error) {
	for a, err := range off.Add(t.Context(), bytes.NewReader(p), api.AddOptions{OnBadEntry: onBad}, nil) {
		if err != nil {
			return all, err
		}
		all = append(all, a)
	}
	return all, nil
}

// getBack extracts what has the address root, and returns the address of what
// came out.
func getBack(t testing.TB, off *node.Offline, root b3.Root, target string) b3.Root {
	t.Helper()
	s, err := off.Get(t.Context(), root.String())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Body.Close()
	if err := files.Extract(s, target, files.ExtractOptions{AllowCaseCollisions: true}, nil); err != nil {
		t.Fatalf("get refuses what add took: %v", err)
	}
	for a, err := range off.AddItems(t.Context(), files.DiskItems(target), api.AddOptions{}, nil) {
		if err != nil {
			t.Fatal(err)
		}
		return a.Root
	}
	return b3.Root{}
}

// TestAddTarInAnyOrder: the same tree has the same address, whichever program
// made the tar.
func TestAddTarInAnyOrder(t *testing.T) {
	off := offline(t)
	plain := []tarFile{
		{name: "top/"}, {name: "top/a/"}, {name: "top/a/z", data: "1"}, {name: "top/a-b", data: "2"},
		{name: "top/link", link: "a/z"}, {name: "top/run", data: "3", mode: 0o111},
	}
	want, err := addTar(t, off, tarOf(t, plain...), "")
	if err != nil || len(want) != 1 || want[0].Name != "top" || want[0].Files != 3 || want[0].Notes != nil {
		t.Fatalf("%+v, %v", want, err)
	}
	back := slices.Clone(plain)
	slices.Reverse(back)
	var dots []tarFile
	for _, f := range plain {
		f.name = "./" + f.name
		dots = append(dots, f)
	}
	for what, files := range map[string][]tarFile{
		"backwards":           back,
		"without directories": {plain[5], plain[4], plain[3], plain[2]},
		"with ./":             append([]tarFile{{name: "./"}}, dots...),
		"with a header":       append([]tarFile{{kind: tar.TypeXGlobalHeader}}, plain...),
		"the last counts": append([]tarFile{{name: "top/run", data: "old"}, {name: "top/a-b", link: "run"}},
			back...),
	} {
		got, err := addTar(t, off, tarOf(t, files...), "")
		if err != nil || len(got) != 1 || got[0].Root != want[0].Root {
			t.Errorf("%s: %+v, %v, want %s", what, got, err, want[0].Root)
		}
	}
	several, err := addTar(t, off,
		tarOf(t, tarFile{name: "b/x", data: "1"}, tarFile{name: "file", data: "2"}, tarFile{name: "a/x", data: "1"}),
		"")
	if err != nil || len(several) != 3 || several[0].Name != "a" || several[0].Root != several[1].Root ||
		several[2].Kind != api.File {
		t.Errorf("%+v, %v", several, err)
	}
}

// TestAddTarBadEntries lists what cannot be added, and adds the rest where it
// may.
func TestAddTarBadEntries(t *testing.T) {
	off := offline(t)
	for _, c := range []struct {
		what, reason string
		bad          tarFile
	}{
		{"absolute", "absolute", tarFile{name: "/etc/passwd", data: "x"}},
		{"above", "leads out", tarFile{name: "top/../../x", data: "x"}},
		{"not UTF-8", "not UTF-8", tarFile{name: "top/a\xff", data: "x"}},
		{"absolute link", "absolute", tarFile{name: "top/l", link: "/etc"}},
		{"escaping link", "lead out", tarFile{name: "top/l", link: "../x"}},
		{"hard link", "hard link", tarFile{name: "top/h", link: "top/good", kind: tar.TypeLink}},
		{"pipe", "device or pipe", tarFile{name: "top/p", kind: tar.TypeFifo}},
		{"deep", "directories inside each other", tarFile{name: "top/" + strings.Repeat("d/", 300)}},
		{"long", "limit is 255", tarFile{name: "top/" + strings.Repeat("n", 256), data: "x"}},
	} {
		p := tarOf(t, c.bad, tarFile{name: "top/good", data: "good"})
		_, err := addTar(t, off, p, api.RefuseBadEntries)
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", c.what, err)
		}
		got, err := addTar(t, off, p, api.SkipBadEntries)
		if err != nil || len(got) != 1 || got[0].Files != 1 || got[0].Notes == nil || got[0].Notes.SkippedCount != 1 ||
			!strings.Contains(got[0].Notes.Skipped[0].Reason, c.reason) {
			t.Errorf("%s: %+v, %v", c.what, got, err)
		}
		_, err = addTar(t, off, tarOf(t, c.bad), api.SkipBadEntries)
		if status.Of(err) != status.BadRequest {
			t.Errorf("%s alone: %v", c.what, err)
		}
	}
	twice := tarOf(t, tarFile{name: "top/\u00e9", data: "had it"}, tarFile{name: "top/e\u0301", data: "became it"},
		tarFile{name: "top/a", data: "a"})
	if _, err := addTar(t, off, twice, ""); status.Of(err) != status.BadRequest ||
		!strings.Contains(err.Error(), "becomes that of another") {
		t.Errorf("two names that become one: %v", err)
	}
	once, err := addTar(t, off, tarOf(t, tarFile{name: "top/\u00e9", data: "had it"},
		tarFile{name: "top/a", data: "a"}),
		"")
	if err != nil {
		t.Fatal(err)
	}
	got, err := addTar(t, off, twice, api.SkipBadEntries)
	if err != nil || got[0].Root != once[0].Root || got[0].Notes.SkippedCount != 1 {
		t.Errorf("two names that become one: %+v, %v", got, err)
	}
	many := []tarFile{{name: "top/nfd-e\u0301", data: "x"}}
	for i := range 150 {
		many = append(many, tarFile{name: fmt.Sprintf("top/%d\xff", i), data: "x"})
	}
	_, err = addTar(t, off, tarOf(t, many...), "")
	if status.Of(err) != status.BadRequest || strings.Count(err.Error(), "\n") > api.MaxNotes+2 {
		t.Errorf("many: %v", err)
	}
	got, err = addTar(t, off, tarOf(t, many...), api.SkipBadEntries)
	if err != nil || got[0].Notes.SkippedCount != 150 || len(got[0].Notes.Skipped) != api.MaxNotes ||
		got[0].Notes.RenamedCount != 1 || got[0].Notes.Renamed[0].As != "nfd-\u00e9" {
		t.Errorf("many: %+v, %v", got, err)
	}
}

// oddName draws names that trees have, and that some programs choke on.
func oddName() *rapid.Generator[string] {
	odd := rapid.SampledFrom([]string{"a", "B", "b", ".", "..", " ", "\n", "\\", "é", "e\u0301", "\u202e", "\u200b",
		"\xff", "-", "中", "~", strings.Repeat("n", 130)})
	return rapid.Map(rapid.SliceOfN(odd, 1, 3), func(parts []string) string { return strings.Join(parts, "") })
}

func oddTarget() *rapid.Generator[string] {
	return rapid.OneOf(oddName(),
		rapid.SampledFrom([]string{"/etc/passwd", "../..", "..", "a/../b", "./a", "../a", "a//b", "\xfe"}))
}

// TestWhatAddTakesGetGivesBack: of a tree with odd names, links and kinds, as a
// tar in any order and on disk, all that add takes can be extracted, and what
// comes out has the address of what went in.
func TestWhatAddTakesGetGivesBack(t *testing.T) {
	off := offline(t)
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		top := filepath.Join(dir, "top")
		if err := os.MkdirAll(top, 0o755); err != nil {
			t.Fatal(err)
		}
		entries := []tarFile{{name: "top/"}}
		dirs := []string{"top"}
		for range rapid.IntRange(1, 12).Draw(r, "entries") {
			in := rapid.SampledFrom(dirs).Draw(r, "dir")
			name := in + "/" + oddName().Draw(r, "name")
			disk := filepath.Join(dir, filepath.FromSlash(name))
			usable := filepath.Dir(disk) == filepath.Join(dir, filepath.FromSlash(in)) // neither . nor ..
			switch rapid.IntRange(0, 2).Draw(r, "kind") {
			case 0:
				entries = append(entries, tarFile{name: name + "/"})
				if usable && os.Mkdir(disk, 0o755) == nil {
					dirs = append(dirs, name)
				}
			case 1:
				target := oddTarget().Draw(r, "target")
				entries = append(entries, tarFile{name: name, link: target})
				if usable {
					_ = os.Symlink(target, disk) // it may be there
				}
			default:
				data := rapid.StringN(0, 3, 9).Draw(r, "data")
				entries = append(entries,
					tarFile{name: name, data: data, mode: 0o111 * rapid.Int64Range(0, 1).Draw(r, "x")})
				if _, err := os.Lstat(disk); usable && err != nil {
					if err := os.WriteFile(disk, []byte(data), 0o644); err != nil &&
						!strings.Contains(err.Error(), "too long") {
						t.Fatal(err)
					}
				}
			}
		}
		shuffled := rapid.Permutation(entries).Draw(r, "order")
		got, err := addTar(t, off, tarOf(t, shuffled...), api.SkipBadEntries)
		if err != nil && (status.Of(err) != status.BadRequest ||
			!strings.Contains(err.Error(), "and as a directory") && !strings.Contains(err.Error(), "cannot be added")) {
			r.Fatal(err)
		}
		for i, a := range got {
			if back := getBack(t, off, a.Root, filepath.Join(dir, fmt.Sprint("tar", i))); back != a.Root {
				r.Fatalf("the tar was %s, and came back as %s", a.Root, back)
			}
		}
		disk := files.NewDisk([]string{top}, api.SkipBadEntries, homefiles.Own{})
		if _, err := disk.Check(t.Context()); err != nil {
			r.Fatal(err)
		}
		for a, err := range off.AddItems(t.Context(), disk.Items(), api.AddOptions{}, nil) {
			if err != nil {
				r.Fatal(err)
			}
			if back := getBack(t, off, a.Root, filepath.Join(dir, "disk")); back != a.Root {
				r.Fatalf("the directory was %s, and came back as %s", a.Root, back)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	})
}
