package follow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"allium/node/files/extract"
	"allium/protocols/manifest"
)

// killed updates a directory to a version, and stops as a process that is killed after it has placed n
// entries, with the staging and the ledger as they are then. It returns how many entries there were.
func killed(t testing.TB, d *Dir, s Source, key string, n int) int {
	t.Helper()
	u := update{
		d: d, s: s, o: Options{MaxBytes: 1 << 30}, index: map[string]int{}, dirs: extract.NewDirectories(d.root),
		local: map[int]bool{}, staged: map[string]int{}, after: records{},
	}
	defer u.dirs.Close()
	err := errors.Join(u.list(t.Context(), key), u.compare(t.Context()), u.fetch(t.Context()), u.intend(t.Context()))
	slices.SortStableFunc(u.todo, func(a, b int) int { // links last
		link := func(i int) int {
			if u.entries[i].Kind == manifest.Link {
				return 1
			}
			return 0
		}
		return link(a) - link(b)
	})
	for _, i := range u.todo[:min(n, len(u.todo))] {
		err = errors.Join(err, u.place(t.Context(), u.entries[i]))
	}
	if d.staged != nil {
		err = errors.Join(err, d.staged.dir.Close())
		d.staged.unlock()
		d.staged = nil // stays on the disk
	}
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return len(u.todo)
}

// TestKilled: wherever an update is killed, the next one of any version knows what it wrote: nothing is
// set aside, nothing of it stays, and what was fetched is not fetched again.
func TestKilled(t *testing.T) {
	t.Parallel()
	two := version{"a": "two", "sub/b": "bees", "n/e/w": "x:new", "tool": "->a", "same": "new", "l": "->tool"}
	three := version{"a": "three", "sub": "now a file", "n": "->sub", "tool": "x:run"}
	s := newSource()
	keys := []string{s.add(t, one), s.add(t, two), s.add(t, three)}
	for _, last := range []version{one, two, three} {
		for n := 0; ; n++ {
			dir, ledgers := filepath.Join(t.TempDir(), "d"), t.TempDir()
			d := opens(t, dir, ledgers)
			update1(t, d, s, keys[0], Options{})
			all := killed(t, d, s, keys[1], n)
			d = opens(t, dir, ledgers)
			s.asked = nil
			got := update1(t, d, s, s.add(t, last), Options{})
			if got.AsideCount+got.Left != 0 {
				t.Errorf("killed after %d of %d: %+v", n, all, got)
			}
			if last["a"] == "two" && len(s.asked) > 0 {
				t.Errorf("killed after %d of %d: %d files were fetched again", n, all, len(s.asked))
			}
			isOnDisk(t, dir, last)
			if n > all {
				break
			}
		}
	}
}

// TestKilledOften: more updates are killed in a row than the ledger keeps records of a path. The next
// update knows what is there.
func TestKilledOften(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"->x", "content"} {
		for placed := range 2 * maxRecords {
			dir, ledgers, s := filepath.Join(t.TempDir(), "d"), t.TempDir(), newSource()
			d := opens(t, dir, ledgers)
			update1(t, d, s, s.add(t, version{"a": first}), Options{})
			for i := range 2 * maxRecords {
				n := 0
				if i == placed {
					n = 1
				}
				killed(t, d, s, s.add(t, version{"a": fmt.Sprint("version ", i)}), n)
				d = opens(t, dir, ledgers)
			}
			last := version{"a": "last"}
			if got := update1(t, d, s, s.add(t, last), Options{}); got.AsideCount+got.Left != 0 {
				t.Errorf("%s, update %d placed it: %+v", first, placed, got)
			}
			isOnDisk(t, dir, last)
		}
	}
}

// TestNeverLost: whatever versions come, whatever is edited and wherever updates are killed, what was
// edited is somewhere on the disk, and the version of the last update is there whole.
func TestNeverLost(t *testing.T) {
	t.Parallel()
	paths := []string{"a", "b", "c/d", "c/e", "c/f/g", "b/h"}
	rapid.Check(t, func(rt *rapid.T) {
		base, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		dir, ledgers, s := filepath.Join(base, "dir"), filepath.Join(base, "ledgers"), newSource()
		mine := map[string]bool{}
		draw := func() version {
			v := version{}
			for _, p := range paths {
				above, _, below := strings.Cut(p, "/")
				if _, taken := v[above]; below && taken {
					continue
				}
				switch c := rapid.IntRange(0, 6).Draw(rt, p); {
				case c > 4:
				case c == 4:
					v[p] = "->x"
				default:
					v[p] = fmt.Sprint("content ", c)
				}
			}
			return v
		}
		d, err := unsynced(dir, ledgers)
		for step := range rapid.IntRange(1, 8).Draw(rt, "steps") {
			if err != nil {
				rt.Fatal(err)
			}
			v := draw()
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				name := filepath.Join(dir, rapid.SampledFrom(paths).Draw(rt, "edited"))
				content := fmt.Sprint("mine ", step)
				if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() || os.IsNotExist(err) {
					if err := os.MkdirAll(filepath.Dir(name), 0o755); err == nil &&
						os.WriteFile(name, []byte(content), 0o644) == nil {
						mine[content] = true
					}
				}
				for content := range mine { // it may have replaced an edited file
					if !slices.Contains(slices.Collect(maps.Values(disk(t, dir))), content) {
						delete(mine, content)
					}
				}
			case 1:
				killed(t, d, s, s.add(t, v), rapid.IntRange(0, 8).Draw(rt, "placed"))
				d, err = unsynced(dir, ledgers)
			default:
				if _, err := d.Update(t.Context(), s, s.add(t, v), Options{MaxBytes: 1 << 20}); err != nil {
					rt.Fatal(err)
				}
				on := disk(t, dir)
				for p, content := range v {
					if on[p] != content {
						rt.Fatalf("%s has %q, want %q", p, on[p], content)
					}
				}
				for p, content := range on {
					if _, ok := v[p]; !ok && content != "/" && !mine[content] {
						rt.Fatalf("%s with %q is left", p, content)
					}
				}
			}
			on := slices.Collect(maps.Values(disk(t, dir)))
			for content := range mine {
				if !slices.Contains(on, content) {
					rt.Fatalf("%q is lost; there is %q", content, on)
				}
			}
		}
		if err := d.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestOpen: one process follows a directory at a time, a directory that was removed is told, and one that
// is there again is taken up.
func TestOpen(t *testing.T) {
	t.Parallel()
	dir, ledgers, s := filepath.Join(t.TempDir(), "dir"), t.TempDir(), newSource()
	d := opens(t, dir, ledgers)
	if _, err := Open(dir, t.TempDir(), false); outcome(err) != "busy" {
		t.Errorf("a second one: %v", err)
	}
	update1(t, d, s, s.add(t, one), Options{})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Update(t.Context(), s, s.add(t, one), Options{MaxBytes: 1000}); outcome(err) != "not_found" {
		t.Errorf("it was removed: %v", err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	update1(t, d, s, s.add(t, one), Options{})
	isOnDisk(t, dir, one)
	write(t, dir+".file", "x")
	if _, err := Open(dir+".file", ledgers, false); outcome(err) != "conflict" {
		t.Errorf("a file: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "no/such"), ledgers, false); outcome(err) != "not_found" {
		t.Errorf("no parent: %v", err)
	}
}

// TestOpenLink: a symbolic link is refused, also one that takes the place of the directory later, unless links
// may be followed.
func TestOpenLink(t *testing.T) {
	t.Parallel()
	dir, link, ledgers := filepath.Join(t.TempDir(), "dir"), filepath.Join(t.TempDir(), "link"), t.TempDir()
	s := newSource()
	for _, to := range []string{dir, filepath.Dir(dir)} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{link, link + "/", link + "/."} {
			if _, err := Open(name, ledgers, false); outcome(err) != "conflict" ||
				!strings.Contains(err.Error(), "symbolic") {
				t.Errorf("%s leads to %s: %v", name, to, err)
			}
		}
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
	}
	d := opens(t, dir, ledgers)
	update1(t, d, s, s.add(t, one), Options{})
	if err := errors.Join(os.Rename(dir, dir+".moved"), os.Symlink(dir+".moved", dir)); err != nil {
		t.Fatal(err)
	}
	_, err := d.Update(t.Context(), s, s.add(t, version{"a": "two"}), Options{MaxBytes: 1000})
	if outcome(err) != "conflict" {
		t.Errorf("it became a link: %v", err)
	}
	isOnDisk(t, dir+".moved", one)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(dir, ledgers, true); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCloseUnlocks: a closed directory can be followed at once, also while a process that is being started
// still has its descriptor.
func TestCloseUnlocks(t *testing.T) {
	t.Parallel()
	dir, ledgers := filepath.Join(t.TempDir(), "dir"), t.TempDir()
	d, err := Open(dir, ledgers, false)
	if err != nil {
		t.Fatal(err)
	}
	held, err := syscall.Dup(int(d.held.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(held)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	opens(t, dir, ledgers)
}

// TestInterrupted: what ends an update before everything is fetched leaves the directory as it was; what
// was fetched is used by the next.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir, s := filepath.Join(t.TempDir(), "dir"), newSource()
	d := opens(t, dir, t.TempDir())
	update1(t, d, s, s.add(t, one), Options{})
	ctx, cancel := context.WithCancel(t.Context())
	s.sent = 0
	s.before = func(ctx context.Context, n int) error {
		if n == 1 {
			cancel()
		}
		return ctx.Err()
	}
	two := s.add(t, version{"a": "two", "b": "bee two", "c": "sea two"})
	if _, err := d.Update(ctx, s, two, Options{MaxBytes: 1000}); outcome(err) != "canceled" {
		t.Errorf("got %v", err)
	}
	left := disk(t, dir)
	maps.DeleteFunc(left, func(p, _ string) bool { return strings.HasPrefix(p, stagingName) })
	if !maps.Equal(left, one) {
		t.Errorf("the directory has %q", left)
	}
	s.before, s.asked = nil, nil
	update1(t, d, s, two, Options{})
	isOnDisk(t, dir, version{"a": "two", "b": "bee two", "c": "sea two"})
	if len(s.asked) != 2 {
		t.Errorf("%d files were asked for, want 2", len(s.asked))
	}
}
