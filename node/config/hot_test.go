package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"allium/gateway/fill"
	"allium/gateway/pack"
	"allium/node/p2p"
	"allium/protocols/status"
)

// loadText loads a configuration file with a text.
func loadText(t *testing.T, text string) Loaded {
	t.Helper()
	l, err := loadFile(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func loadFile(t *testing.T, text string) (Loaded, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(Options{File: name})
}

// TestDiff: every key that differs is listed in the order of Keys, those of entries too.
func TestDiff(t *testing.T) {
	t.Parallel()
	old := loadText(t, "node.upload_rate = '1MiB'\nstore.max_bytes = '1GiB'\n"+
		"edge.packs.city.file = 'city.pmtiles'\nedge.packs.old.file = 'old.pmtiles'\n")
	next := loadText(t, "node.upload_rate = '2MiB'\nstore.max_bytes = '2GiB'\ngateway.denylist = ['a', 'b']\n"+
		"edge.packs.city.file = 'city.mbtiles'\nedge.packs.new.file = 'new.pmtiles'\n")
	var got []string
	for _, c := range Diff(old, next) {
		got = append(got, c.Key+" "+c.Old+" "+c.New)
		if c.Hot != IsHot(c.Key) && !strings.HasPrefix(c.Key, "edge.packs.") {
			t.Errorf("%+v", c)
		}
	}
	slices.Sort(got)
	want := []string{
		"edge.packs.city.file city.pmtiles city.mbtiles", "edge.packs.new.file  new.pmtiles",
		"edge.packs.old.file old.pmtiles ", "gateway.denylist  a,b", "node.upload_rate 1MiB 2MiB",
		"store.max_bytes 1GiB 2GiB",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if d := Diff(next, next); len(d) != 0 {
		t.Errorf("itself: %v", d)
	}
}

// TestWith: of another configuration only the hot keys are taken, with their sources; neither of the two changes.
func TestWith(t *testing.T) {
	t.Parallel()
	old := loadText(t, "node.upload_rate = '1MiB'\nnode.region = 'eu'\n")
	next := loadText(t, "node.download_rate = '1MiB'\nnode.region = 'us'\nlog.level = 'warn'\nnode.domain = ''\n")
	mix, err := old.With(next)
	if err != nil {
		t.Fatal(err)
	}
	n := mix.Node
	if n.UploadRate != 0 || n.DownloadRate != 1<<20 || n.Region != "eu" || mix.Log.Level != "warn" ||
		old.Node.UploadRate != 1<<20 {
		t.Errorf("mix %+v, old %+v", n, old.Node)
	}
	for key, want := range map[string]Source{
		"node.upload_rate": FromDefault, "node.download_rate": FromFile, "node.region": FromFile,
		"node.domain": FromFile, "store.max_bytes": FromDefault,
	} {
		if got := mix.Sources[key]; got != want {
			t.Errorf("%s is from %q, want %q", key, got, want)
		}
	}
	for _, c := range Diff(mix, next) {
		if c.Hot {
			t.Errorf("%+v was not taken", c)
		}
	}
	bad := next
	bad.Node.UploadRate = 1
	_, err = old.With(bad)
	if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), "node.upload_rate") {
		t.Errorf("%v", err)
	}
}

// TestHotTags: the tag of a struct, a table and a field of an entry.
func TestHotTags(t *testing.T) {
	t.Parallel()
	type entry struct {
		Hot  int `koanf:"hot" hot:"true"`
		Cold int `koanf:"cold"`
	}
	type config struct {
		Whole struct {
			A int `koanf:"a"`
			B struct {
				C int `koanf:"c"`
			} `koanf:"b"`
		} `koanf:"whole" hot:"true"`
		Table map[string]entry `koanf:"table" hot:"true"`
		Fixed map[string]entry `koanf:"fixed"`
		Cold  int              `koanf:"cold"`
		Some  int              `koanf:"some" hot:"nonzero"`
	}
	forms := map[string]string{}
	findHot(reflect.TypeFor[config](), "", "", forms)
	want := map[string]string{
		"whole.a": hotAlways, "whole.b.c": hotAlways, "table": hotAlways, "table.NAME.hot": hotAlways,
		"table.NAME.cold": hotAlways, "fixed.NAME.hot": hotAlways, "some": hotNonzero,
	}
	if !reflect.DeepEqual(forms, want) {
		t.Errorf("got %v", forms)
	}
	old := config{Fixed: map[string]entry{"x": {1, 1}, "goes": {1, 1}}, Table: map[string]entry{"x": {1, 1}}, Cold: 1}
	next := config{Fixed: map[string]entry{"x": {2, 2}, "comes": {2, 2}}, Table: map[string]entry{"y": {2, 2}}, Cold: 2}
	next.Whole.A, next.Whole.B.C = 2, 2
	mix := old
	applyHot(reflect.ValueOf(&mix).Elem(), reflect.ValueOf(next), "")
	expected := config{
		Fixed: map[string]entry{"x": {2, 1}, "goes": {1, 1}}, Table: map[string]entry{"y": {2, 2}}, Cold: 1,
	}
	expected.Whole = next.Whole
	if !reflect.DeepEqual(mix, expected) {
		t.Errorf("got %+v", mix)
	}
	for _, c := range []struct{ old, next, want int }{{0, 1, 0}, {1, 0, 1}, {1, 2, 2}} {
		mix := config{Some: c.old}
		applyHot(reflect.ValueOf(&mix).Elem(), reflect.ValueOf(config{Some: c.next}), "")
		if mix.Some != c.want {
			t.Errorf("from %d to %d: %d", c.old, c.next, mix.Some)
		}
	}
	if old.Fixed["x"].Hot != 1 {
		t.Error("the old configuration has changed")
	}
}

// TestUnsourced: a configuration without sources has one for every key, of entries too.
func TestUnsourced(t *testing.T) {
	t.Parallel()
	c := Default(p2p.Desktop)
	c.Edge.Pack.Packs = map[string]pack.Mount{"city": {File: "city.pmtiles"}}
	c.Edge.Fill.Sources = map[string]fill.Source{}
	for _, v := range Unsourced(c).Values() {
		if v.Source != FromDefault {
			t.Errorf("%s is from %q", v.Name, v.Source)
		}
	}
	if e, err := Unsourced(c).Explain("edge.packs.city.file"); err != nil || e.Value.Value != "city.pmtiles" {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestBadFiles: what a configuration file cannot be.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("# a comment of a line\n", 240_000)
	for name, c := range map[string]struct{ text, want string }{
		"too large":      {long, "larger than 4MiB"},
		"twice":          {"log.level = 'info'\nlog.level = 'warn'\n", ":2:1: key level is already defined"},
		"a table twice":  {"[log]\nlevel = 'info'\n[log]\nformat = 'json'\n", "log"},
		"a typo":         {"node.uplaod_rate = 0\n", "node.upload_rate"},
		"a wrong type":   {"node.limit_lan = 3.5\n", "must be true or false"},
		"a wrong unit":   {"node.upload_rate = '3 parsecs'\n", "must be a size"},
		"no duration":    {"node.reload_guard = '60'\n", "must be a duration"},
		"too long":       {"node.reload_guard = '2h'\n", "must be 0s to 1h"},
		"not together":   {"edge.min_fresh = '2h'\nedge.max_fresh = '1h'\n", "edge.min_fresh"},
		"too many":       {"trace.ratio = 1.5\n", "must be from 0 to 1"},
		"no number":      {"trace.ratio = nan\n", "must be from 0 to 1"},
		"no URL":         {"trace.endpoint = '127.0.0.1:4318'\n", "trace.endpoint"},
		"credentials":    {"trace.endpoint = 'https://user:secret@127.0.0.1/v1/traces'\n", "has credentials"},
		"and no scheme":  {"trace.endpoint = 'user:secret@127.0.0.1/v1/traces'\n", "has credentials"},
		"no collector":   {"trace.endpoint = 'ftp://127.0.0.1/v1/traces'\n", "http or https URL"},
		"not TOML":       {"\x00\xff", ":1:"},
		"half a setting": {"node.upload_rate = ", "1:"},
	} {
		_, err := loadFile(t, c.text)
		if status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := loadFile(t, long[:maxFile-100]); err != nil {
		t.Errorf("just small enough: %v", err)
	}
}

// TestUnchanged: a file that was replaced or written to between two looks is another one.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), FileName)
	write := func(text string) os.FileInfo {
		info, err := os.Stat(name)
		if err == nil && text == "" {
			return info
		}
		if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
		info, err = os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write("a")
	if !unchanged(first, write("")) {
		t.Error("the same file")
	}
	replaced := write("b")
	if unchanged(first, replaced) {
		t.Error("replaced")
	}
	if err := os.WriteFile(name, []byte("longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if unchanged(replaced, write("")) {
		t.Error("written to")
	}
}

// TestFileGoesWhileRead: what is read of a file that vanishes or is replaced meanwhile is no configuration.
func TestFileGoesWhileRead(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(name string) error{
		"nothing":  func(string) error { return nil },
		"vanishes": os.Remove,
		"replaced": func(name string) error {
			return errors.Join(os.WriteFile(name+".new", []byte("log.level = 'warn'\n"), 0o600), os.Rename(name+".new", name))
		},
	} {
		name := filepath.Join(t.TempDir(), FileName)
		if err := os.WriteFile(name, []byte("log.level = 'info'\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := change(name); err != nil {
			t.Fatal(err)
		}
		want := status.Conflict
		if what == "nothing" {
			want = status.OK
		}
		if _, err := readOpened(f, name); status.Of(err) != want {
			t.Errorf("%s: %v, want %s", what, err, want)
		}
	}
}
