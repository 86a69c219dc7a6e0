package config_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"allium/gateway/fill"
	"allium/gateway/pack"
	"allium/node/config"
	"allium/protocols/status"
)

// TestTables: a file, the environment and flags each set keys of one entry, however the file writes it.
func TestTables(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"headers": "[edge.packs.city]\nfile = 'a/city.pmtiles'\n[edge.sources.maps]\nurl = 'https://a.example'\n" +
			"require_etag = 'date'\n[edge.sources.my-site]\nkey = 'b3:00'\n",
		"dotted": "[edge]\npacks.city.file = 'a/city.pmtiles'\nsources.maps.url = 'https://a.example'\n" +
			"sources.maps.require_etag = 'date'\nsources.my-site.key = 'b3:00'\n",
		"inline": "edge = {packs = {city = {file = 'a/city.pmtiles'}}, sources = {maps = {url = 'https://a.example', " +
			"require_etag = 'date'}, 'my-site'.key = 'b3:00'}}\n",
	} {
		l, err := config.Load(config.Options{
			File: file(t, text),
			Env: []string{"ALLIUM_EDGE__SOURCES__MAPS__REQUIRE_ETAG=any", "ALLIUM_EDGE__SOURCES__MAPS__PRIVATE=true",
				"ALLIUM_EDGE__PACKS__WORLD__KEY=b3:11"},
			Flags: map[string]any{"edge.sources.maps.private": false, "edge.sources.new.urls": "https://b.example,https://c.example"},
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		sources := map[string]fill.Source{
			"maps":    {URL: "https://a.example", RequireETag: "any"},
			"my-site": {Key: "b3:00", RequireETag: "strict"},
			"new":     {URLs: []string{"https://b.example", "https://c.example"}, RequireETag: "strict"},
		}
		packs := map[string]pack.Mount{"city": {File: "a/city.pmtiles"}, "world": {Key: "b3:11"}}
		if !reflect.DeepEqual(l.Edge.Fill.Sources, sources) || !maps.Equal(l.Edge.Pack.Packs, packs) {
			t.Errorf("%s: got %+v and %+v", name, l.Edge.Fill.Sources, l.Edge.Pack.Packs)
		}
		for key, want := range map[string]config.Source{
			"edge.sources.maps.url": config.FromFile, "edge.sources.maps.require_etag": config.FromEnv,
			"edge.sources.maps.private": config.FromFlag, "edge.sources.maps.announce": config.FromDefault,
			"edge.packs.world.key": config.FromEnv, "edge.packs.city.key": config.FromDefault,
		} {
			if e, err := l.Explain(key); err != nil || e.Source != want || l.Sources[key] != want {
				t.Errorf("%s: %s is from %s and %s, want %s: %v", name, key, e.Source, l.Sources[key], want, err)
			}
		}
		var shown []string
		for _, v := range l.Values() {
			if strings.Contains(v.Name, "NAME") {
				t.Errorf("%s: %s is shown", name, v.Name)
			}
			if v.Changed && strings.HasPrefix(v.Name, "edge.") {
				shown = append(shown, v.Name+"="+v.Value)
			}
		}
		if want := []string{"edge.packs.city.file=a/city.pmtiles", "edge.packs.world.key=b3:11",
			"edge.sources.maps.url=https://a.example", "edge.sources.maps.require_etag=any", "edge.sources.my-site.key=b3:00",
			"edge.sources.new.urls=https://b.example,https://c.example"}; !slices.Equal(shown, want) {
			t.Errorf("%s: got %q, want %q", name, shown, want)
		}
	}
}

// TestTableMistakes: each mistake is told once, with its place.
func TestTableMistakes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"[edge.packs]\ncity = 'x.pmtiles'\n": `:2:1: unknown key "edge.packs.city"; did you mean "edge.packs.city.file"?`,
		"[[edge.sources]]\nurl = 'x'\n":      `:1:1: unknown key "edge.sources"; did you mean "edge.sources.NAME.key"?`,
		"[edge.packs.b]\nfil = 'x'\n":        `:2:1: unknown key "edge.packs.b.fil"; did you mean "edge.packs.b.file"?`,
		"[edge.source.b]\nurl = 'x'\n":       `:2:1: unknown key "edge.source.b.url"; did you mean "edge.sources.b.url"?`,
		"[edge.sources.x]\nprivate = 'yes!'": `:2:1: edge.sources.x.private is "yes!", must be true or false`,
		"[edge.sources.x]\nprivate = true\nulr = 'https://x.example'": `:3:1: unknown key "edge.sources.x.ulr"; did you ` +
			`mean "edge.sources.x.url"?`,
		"[edge.sources.x]\nprivate = true\n":         ":1:1: edge.sources.x has none of key, url and urls. Set one of them",
		"[edge]\nsources.x.private = true\n":         ":2:1: edge.sources.x has none of key, url and urls. Set one of them",
		"[edge.packs.x]\nfile = 'a'\nkey = 'b3:00'":  ":1:1: edge.packs.x has both file and key. Leave one of them out",
		"[edge.packs.Big]\nfile='a'":                 ":1:1: edge.packs.Big cannot be named so.",
		"[edge.packs.NAME]\nfile='a'":                ":1:1: edge.packs.NAME cannot be named so.",
		"[edge.packs.'']\nfile='a'":                  `:1:1: edge.packs."" cannot be named so.`,
		"[edge.packs.'a/b']\nfile='a'":               ":1:1: edge.packs.a/b cannot be named so.",
		"[edge.packs.'a.b']\nfile='a'":               `:2:1: unknown key "edge.packs.a.b.file"`,
		"[edge.packs.a-b]\nfile='/a'":                `:2:1: edge.packs.a-b.file is "/a", must be a path below edge.dir`,
		"[edge.sources.a]\nurl = 'http://a.example'": `:2:1: edge.sources.a.url is "http://a.example", must be an https URL.`,
		"[edge]\nfills = 0":                          ":2:1: edge.fills is 0, must be 1 to 1024",
		"[edge.packs.x]\n# file = 'a'\n[store]\n":    ":1:1: edge.packs.x is an empty table: set its keys, or take it out",
		"[edge]\nmin_fresh = '2h'\nmax_fresh = '1h'": ":2:1: edge.min_fresh is 2h0m0s, must be 0s to edge.max_fresh",
		"[edge]\ncors = ['example.org']":             `:2:1: edge.cors contains "example.org"`,

		"[edge.packs.a]\nkey='a'\n[edge.packs.a-b]\n key='a b'": ":4:2: edge.packs.a-b.key is",
		"[edge.packs.b]\nkey='a'\n[edge.packs.b_B]\nkey='a'":    ":3:1: edge.packs.b_B cannot be named so.",
	} {
		name := file(t, text)
		_, err := config.Load(config.Options{File: name})
		if status.Of(err) != status.BadRequest || !strings.HasPrefix(err.Error(), name+want) {
			t.Errorf("%q: got\n%v\nwant\n%s%s", text, err, name, want)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is told more than once:\n%v", text, err)
		}
	}
	for env, want := range map[string]string{
		"EDGE__SOURCES__A__PRIVATE=true": "ALLIUM_EDGE__SOURCES__A__…: edge.sources.a has none of key, url and urls",
		"EDGE__SOURCES__A__URL=ftp://x":  `ALLIUM_EDGE__SOURCES__A__URL: edge.sources.a.url is "ftp://x", must be an https URL`,
		"EDGE__SOURCES__A=x":             `ALLIUM_EDGE__SOURCES__A: unknown key "edge.sources.a"; did you mean`,
		"EDGE__SOURCES____URL=x":         `ALLIUM_EDGE__SOURCES____…: edge.sources."" cannot be named so.`,
	} {
		_, err := config.Load(config.Options{Env: []string{"ALLIUM_" + env}})
		if status.Of(err) != status.BadRequest || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got\n%v\nwant\n%s", env, err, want)
		}
	}
}

// TestExplainTables: a key has a text for any name, and for NAME.
func TestExplainTables(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Flags: map[string]any{"edge.packs.city.key": "b3:00"}})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{ // the variable and the value
		"edge.packs.city.key":            "ALLIUM_EDGE__PACKS__CITY__KEY=b3:00",
		"edge.packs.other.key":           "ALLIUM_EDGE__PACKS__OTHER__KEY=",
		"edge.sources.NAME.require_etag": "ALLIUM_EDGE__SOURCES__NAME__REQUIRE_ETAG=strict",
		"edge.sources.a_.require_etag":   "=strict",
		"edge.sources.a__b.require_etag": "=strict",
	} {
		e, err := l.Explain(key)
		if got := e.Env + "=" + e.Value.Value; err != nil || got != want || e.Name != key || len(e.Doc) < 10 {
			t.Errorf("%s: %s, %q, %v", key, got, e.Doc, err)
		}
	}
	for _, key := range []string{"edge.packs.city", "edge.packs", "edge.packs.city.key.x", "edge.packs..x"} {
		if e, err := l.Explain(key); status.Of(err) != status.BadRequest {
			t.Errorf("%s: %+v, %v", key, e, err)
		}
	}
}

func TestComplete(t *testing.T) {
	t.Parallel()
	l, err := config.Load(config.Options{Flags: map[string]any{"edge.packs.city.key": "b3:00"}})
	if err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"edge.p":             "edge.packs.city.file edge.packs.city.key edge.pack_cache edge.packs.",
		"edge.sou":           "edge.sources.",
		"edge.packs.":        "edge.packs.city.file edge.packs.city.key",
		"edge.packs.c":       "edge.packs.city.file edge.packs.city.key",
		"edge.packs.city.":   "edge.packs.city.file edge.packs.city.key",
		"edge.packs.new":     "",
		"edge.packs.new.":    "edge.packs.new.file edge.packs.new.key",
		"edge.sources.n.url": "edge.sources.n.urls",
		"log.l":              "log.level",
	} {
		var got []string
		for _, k := range l.Complete(typed) {
			got = append(got, k.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %s", typed, got, want)
		}
	}
	if all := l.Complete(""); len(all) < len(config.Keys())-10 {
		t.Errorf("%d keys of %d are offered", len(all), len(config.Keys()))
	}
}

// TestEditTables: set makes a table, unset empties and removes it, and a half one is refused.
func TestEditTables(t *testing.T) {
	t.Parallel()
	before := "# mine\n[log] # loud\nlevel = \"debug\"\n"
	o := config.Options{File: file(t, before)}
	set := func(args ...string) ([]config.Edited, error) {
		all, err := config.Assignments(args)
		if err != nil {
			return nil, err
		}
		return config.Set(t.Context(), o, all...)
	}
	edited, err := set("edge.sources.maps.urls", "https://a.example", "https://b.example", "edge.sources.maps.private", "true")
	if err != nil || len(edited) != 2 || edited[0].Value.Value != "https://a.example,https://b.example" ||
		edited[1].Before != "false" {
		t.Fatalf("%+v, %v", edited, err)
	}
	both := before + "\n[edge.sources.maps]\nurls = [\"https://a.example\", \"https://b.example\"]\nprivate = true\n"
	if got := read(t, o.File); got != both {
		t.Fatalf("got\n%s\nwant\n%s", got, both)
	}
	for _, bad := range []struct{ args, says string }{
		{"edge.sources.m.private true", "edge.sources.m has none of key, url and urls. Set one of them"},
		{"edge.sources.maps.url https://c.example", "edge.sources.maps has more than one of key, url and urls"},
		{"edge.packs.city city.pmtiles", `did you mean "edge.packs.city.file"`},
		{"edge.packs.City.file city.pmtiles", "edge.packs.City cannot be named so"},
		{"edge.packs.NAME.file city.pmtiles", "edge.packs.NAME cannot be named so"},
		{"edge.packs.ä.file city.pmtiles", "edge.packs.ä cannot be named so"},
		{"edge.packs..file city.pmtiles", `edge.packs."" cannot be named so`},
		{"edge.packs.a.b.file city.pmtiles", "unknown key"},
	} {
		if _, err := set(strings.Fields(bad.args)...); status.Of(err) != status.BadRequest ||
			!strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: %v", bad.args, err)
		}
	}
	unset := func(key, want string) {
		t.Helper()
		e, err := one(config.Unset(t.Context(), o, key))
		if got := read(t, o.File); err != nil || e.Name != key || got != want {
			t.Errorf("unset %s: %+v, %v, left\n%s", key, e, err, got)
		}
	}
	if _, err := config.Unset(t.Context(), o, "edge.sources.maps.urls"); status.Of(err) != status.BadRequest {
		t.Errorf("a source without an origin: %v", err)
	}
	for _, key := range []string{"edge", "edge.sources", "log"} {
		if _, err := config.Unset(t.Context(), o, key); status.Of(err) != status.BadRequest {
			t.Errorf("a group was taken out by %s: %v", key, err)
		}
	}
	unset("edge.sources.maps.private", strings.TrimSuffix(both, "private = true\n"))
	unset("edge.sources.maps.urls", before)
	unset("edge.sources.maps", before)
	if _, err := set("edge.packs.city.file", "city.pmtiles"); err != nil {
		t.Fatal(err)
	}
	unset("edge.packs.city", before)

	if _, err := set("edge.packs.city.file", "city.pmtiles"); err != nil {
		t.Fatal(err)
	}
	if _, err := set("edge.packs.city.file", "", "edge.packs.city.key", "b3:00"); err != nil {
		t.Errorf("a pack that moves: %v", err)
	}
}

// TestEditBadTables: what a mistake wrote is taken out by its name.
func TestEditBadTables(t *testing.T) {
	t.Parallel()
	for text, key := range map[string]string{
		"[edge.packs.Big]\nfile = 'x'\n":   "edge.packs.Big",
		"[edge.packs]\ncity = 'x'\n":       "edge.packs.city",
		"[[edge.sources]]\nurl = 'x'\n":    "edge.sources",
		"[edge.packs.a.tls]\nfile = 'x'\n": "edge.packs.a",
		"[edge.packs.a]\nfil = 'x'\n":      "edge.packs.a.fil",
	} {
		o := config.Options{File: file(t, text)}
		if e, err := one(config.Unset(t.Context(), o, key)); err != nil || !e.Changed {
			t.Errorf("%q: %+v, %v", text, e, err)
		}
	}
}

// TestManyTables: the largest numbers of packs and sources are allowed, and no more.
func TestManyTables(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range pack.MaxPacks {
		fmt.Fprintf(&text, "[edge.packs.p%d]\nfile = 'x'\n", i)
	}
	for i := range fill.MaxSources {
		fmt.Fprintf(&text, "[edge.sources.s%d]\nkey = 'x'\n", i)
	}
	if l, err := config.Load(config.Options{File: file(t, text.String())}); err != nil ||
		len(l.Edge.Pack.Packs) != pack.MaxPacks {
		t.Error(err)
	}
	text.WriteString("[edge.packs.p]\nfile = 'x'\n[edge.sources.s]\nkey = 'x'\n")
	_, err := config.Load(config.Options{File: file(t, text.String())})
	if err == nil || !strings.Contains(err.Error(), "edge.packs has 1025 packs, must have at most 1024") ||
		!strings.Contains(err.Error(), "edge.sources has 257 sources, must have at most 256") {
		t.Error(err)
	}
}
