package follow

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"allium/protocols/status"
)

// one is the first version of most tests.
var one = version{"a": "one", "sub/b": "bee", "sub/deep/c": "sea", "l": "->a", "tool": "x:run"}

const edited = ".edited-20261125-191500" // by clock

func aside(paths ...string) (all []Aside) {
	for _, p := range paths {
		all = append(all, Aside{p, p + edited})
	}
	return all
}

// TestUpdate: what an update does to what is there, by what it wrote before and what was edited.
func TestUpdate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before version           // there before the first update to one
		edit   map[string]string // after it; "": removed
		next   version
		mirror bool
		want   version
		stats  Stats
	}{
		"changed": {
			next:  version{"a": "two", "l": "->tool", "tool": "x:run"},
			want:  version{"a": "two", "l": "->tool", "tool": "x:run"},
			stats: Stats{Kept: 1, Written: 2, Bytes: 3, Removed: 4},
		},
		"the same": {next: one, want: one, stats: Stats{Kept: 5}},
		"emptied":  {next: version{"e": "/"}, want: version{"e": "/"}, stats: Stats{Removed: 7}},
		"edited": {
			edit: map[string]string{"a": "mine"}, next: version{"a": "two"},
			want:  version{"a": "two", "a" + edited: "mine"},
			stats: Stats{Written: 1, Bytes: 3, Removed: 6, AsideCount: 1, Aside: aside("a")},
		},
		"edited, and the same": {
			edit: map[string]string{"a": "mine"}, next: version{"a": "one"},
			want:  version{"a": "one", "a" + edited: "mine"},
			stats: Stats{Written: 1, Bytes: 3, Removed: 6, AsideCount: 1, Aside: aside("a")},
		},
		"edited to the new content": {
			edit: map[string]string{"a": "two"}, next: version{"a": "two"}, want: version{"a": "two"},
			stats: Stats{Kept: 1, Removed: 6},
		},
		"edited, and it is gone": {
			edit: map[string]string{"sub/b": "mine"}, next: version{"a": "one"},
			want:  version{"a": "one", "sub/b": "mine"},
			stats: Stats{Kept: 1, Removed: 4, Left: 1},
		},
		"removed here": {
			edit: map[string]string{"a": ""}, next: version{"a": "one"}, want: version{"a": "one"},
			stats: Stats{Written: 1, Bytes: 3, Removed: 6},
		},
		"a directory removed here": {
			edit: map[string]string{"sub": ""}, next: one, want: one, stats: Stats{Kept: 3, Written: 2, Bytes: 6},
		},
		"others stay": {
			before: version{"mine": "m", "sub/own": "o", "a": "before"}, next: version{"b": "b"},
			want:  version{"mine": "m", "sub/own": "o", "a" + edited: "before", "b": "b"},
			stats: Stats{Written: 1, Bytes: 1, Removed: 6},
		},
		"what was there stays": {
			before: version{"a": "one"}, next: version{"b": "b"}, want: version{"a": "one", "b": "b"},
			stats: Stats{Written: 1, Bytes: 1, Removed: 6},
		},
		"what was there is replaced": {
			before: version{"a": "one"}, next: version{"a": "two"}, want: version{"a": "two"},
			stats: Stats{Written: 1, Bytes: 3, Removed: 6},
		},
		"mirror": {
			before: version{"mine": "m", "sub/own": "o", "a": "one", "d/e/f": "g"},
			mirror: true, next: version{"b": "b"},
			want: version{"b": "b"}, stats: Stats{Written: 1, Bytes: 1, Removed: 12},
		},
		"mirror keeps edits": {
			edit: map[string]string{"sub/b": "mine"}, mirror: true, next: version{"a": "one"},
			want:  version{"a": "one", "sub/b" + edited: "mine"},
			stats: Stats{Kept: 1, Removed: 4, AsideCount: 1, Aside: aside("sub/b")},
		},
		"mirror keeps what was set aside": {
			before: version{"a": "mine"}, mirror: true, next: version{"a": "one"},
			want: version{"a": "one", "a" + edited: "mine"}, stats: Stats{Kept: 1, Removed: 6},
		},
		"a file becomes a directory": {
			next: version{"a/b": "c"}, want: version{"a/b": "c"}, stats: Stats{Written: 1, Bytes: 1, Removed: 6},
		},
		"an edited file becomes a directory": {
			edit: map[string]string{"a": "mine"}, next: version{"a/b": "c"},
			want:  version{"a/b": "c", "a" + edited: "mine"},
			stats: Stats{Written: 1, Bytes: 1, Removed: 6, AsideCount: 1, Aside: aside("a")},
		},
		"a directory becomes a file": {
			next: version{"sub": "file"}, want: version{"sub": "file"}, stats: Stats{Written: 1, Bytes: 4, Removed: 7},
		},
		"a directory with others becomes a file": {
			edit: map[string]string{"sub/mine": "m"}, next: version{"sub": "file"},
			want:  version{"sub": "file", "sub" + edited + "/mine": "m"},
			stats: Stats{Written: 1, Bytes: 4, Removed: 6, AsideCount: 1, Aside: aside("sub")},
		},
		"a link becomes a directory": {
			next: version{"l/x": "y"}, want: version{"l/x": "y"}, stats: Stats{Written: 1, Bytes: 1, Removed: 6},
		},
		"the same content many times": {
			next:  version{"p": "same", "q": "same", "r/s": "same", "t": "same"},
			want:  version{"p": "same", "q": "same", "r/s": "same", "t": "same"},
			stats: Stats{Written: 4, Bytes: 16, Removed: 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "dir")
			for p, content := range c.before {
				write(t, filepath.Join(dir, p), content)
			}
			s, ledgers := newSource(), t.TempDir()
			d := opens(t, dir, ledgers)
			update1(t, d, s, s.add(t, one), Options{})
			for p, content := range c.edit {
				if content == "" {
					if err := os.RemoveAll(filepath.Join(dir, p)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				write(t, filepath.Join(dir, p), content)
			}
			if err := d.Close(); err != nil { // another process goes on
				t.Fatal(err)
			}
			d = opens(t, dir, ledgers)
			got := update1(t, d, s, s.add(t, c.next), Options{Mirror: c.mirror})
			isOnDisk(t, dir, c.want)
			if !reflect.DeepEqual(got, c.stats) {
				t.Errorf("%+v, want %+v", got, c.stats)
			}
			asked := len(s.asked)
			again := update1(t, d, s, s.add(t, c.next), Options{Mirror: c.mirror})
			if again.Written+again.Removed+again.AsideCount != 0 || len(s.asked) != asked {
				t.Errorf("the second time: %+v, and %d files were asked for", again, len(s.asked)-asked)
			}
			isOnDisk(t, dir, c.want)
		})
	}
}

// TestFetchesWhatChanged: files that are on the disk are not fetched, also if only the executable bit of
// one differs; permissions stay.
func TestFetchesWhatChanged(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), newSource()
	d := opens(t, dir, t.TempDir())
	update1(t, d, s, s.add(t, version{"a": "one", "tool": "x:run", "b": "b"}), Options{})
	if err := errors.Join(os.Chmod(dir+"/tool", 0o644), os.Chmod(dir+"/b", 0o600)); err != nil {
		t.Fatal(err)
	}
	s.asked = nil
	got := update1(t, d, s, s.add(t, version{"a": "one", "tool": "x:run", "b": "bb"}), Options{})
	if got.Kept != 1 || got.Written != 2 || len(s.asked) != 1 || got.AsideCount != 0 {
		t.Errorf("%+v, %d files were asked for", got, len(s.asked))
	}
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "b": 0o600, "a": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has the mode %v, %v", name, info.Mode(), err)
		}
	}
}

// TestLedgerLost: without a ledger, or with a damaged one, nothing is removed, and what differs is set
// aside.
func TestLedgerLost(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(file string) error{
		"gone":       os.Remove,
		"truncated":  func(f string) error { return os.Truncate(f, 100) },
		"empty":      func(f string) error { return os.Truncate(f, 0) },
		"for others": func(f string) error { return os.Chmod(f, 0o666) },
		"changed": func(f string) error {
			p, err := os.ReadFile(f)
			return errors.Join(err, os.WriteFile(f,
				[]byte(strings.Replace(string(p), `"own":true`, `"own":null`, 1)), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, ledgers, s := t.TempDir(), t.TempDir(), newSource()
			d := opens(t, dir, ledgers)
			update1(t, d, s, s.add(t, version{"a": "one", "b": "bee", "c": "sea"}), Options{})
			if err := errors.Join(d.Close(), damage(d.ledger)); err != nil {
				t.Fatal(err)
			}
			d = opens(t, dir, ledgers)
			if (d.Forgot() == nil) != (name == "gone") {
				t.Errorf("told: %v", d.Forgot())
			}
			update1(t, d, s, s.add(t, version{"a": "two", "b": "bee"}), Options{})
			isOnDisk(t, dir, version{"a": "two", "a" + edited: "one", "b": "bee", "c": "sea"})
			// What was found to be right is known now, but not removed.
			update1(t, d, s, s.add(t, version{"a": "three"}), Options{})
			isOnDisk(t, dir, version{"a": "three", "a" + edited: "one", "b": "bee", "c": "sea"})
		})
	}
}

// TestRefused: a version that breaks a bound or a rule changes nothing, and none of its files is fetched.
func TestRefused(t *testing.T) {
	t.Parallel()
	s := newSource()
	many := version{}
	for i := range 100 {
		many["d/"+strings.Repeat("x", i+1)] = "1234567890"
	}
	for name, c := range map[string]struct {
		v    version
		max  int64
		want status.Outcome
	}{
		"large":       {many, 1999, status.BodyCap},
		"case":        {version{"Readme": "a", "README": "b"}, 1 << 20, status.Conflict},
		"link out":    {version{"a": "b", "z": "->../../x"}, 1 << 20, status.BadRequest},
		"own name":    {version{stagingName + "/x": "b"}, 1 << 20, status.BadRequest},
		"is no place": {version{stagingName: "->a", "a": "b"}, 1 << 20, status.BadRequest},
	} {
		dir := t.TempDir()
		write(t, dir+"/mine", "m")
		d := opens(t, dir, t.TempDir())
		_, err := d.Update(t.Context(), s, s.add(t, c.v), Options{MaxBytes: c.max, Mirror: true})
		if status.Of(err) != c.want || len(s.asked) > 0 {
			t.Errorf("%s: %v, want %s; %d files were asked for", name, err, c.want, len(s.asked))
		}
		isOnDisk(t, dir, version{"mine": "m"})
	}
}

// TestNothingOutside: links that were planted in the directory lead nothing out of it.
func TestNothingOutside(t *testing.T) {
	t.Parallel()
	for _, mirror := range []bool{false, true} {
		top := t.TempDir()
		dir, out := filepath.Join(top, "dir"), filepath.Join(top, "out")
		s := newSource()
		d := opens(t, dir, t.TempDir())
		update1(t, d, s, s.add(t, one), Options{})
		write(t, out+"/b", "outside")
		write(t, out+"/deep/c", "outside")
		plant := func(name, to string) {
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, name)),
				os.Symlink(to, filepath.Join(dir, name))); err != nil {
				t.Fatal(err)
			}
		}
		plant("sub", "../out")
		plant("a", "../out/b")
		plant("more", "../out")
		plant(stagingName, "../out")
		update1(t, d, s, s.add(t, version{"a": "two", "sub/b": "bee", "sub/new": "n"}), Options{Mirror: mirror})
		isOnDisk(t, out, version{"b": "outside", "deep/c": "outside"})
		want := version{
			"a": "two", "sub/b": "bee", "sub/new": "n",
			"a" + edited: "->../out/b", "sub" + edited: "->../out", "more": "->../out",
		}
		if mirror {
			delete(want, "more")
		}
		isOnDisk(t, dir, want)
		plant("sub", "../out")
		update1(t, d, s, s.add(t, version{"a": "two"}), Options{Mirror: mirror})
		isOnDisk(t, out, version{"b": "outside", "deep/c": "outside"})
	}
}
