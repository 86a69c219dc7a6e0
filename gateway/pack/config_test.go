package pack_test

import (
	"strings"
	"testing"

	"allium/gateway/pack"
	"allium/protocols/status"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	with := func(m pack.Mount) func(*pack.Config) {
		return func(c *pack.Config) { c.Packs = map[string]pack.Mount{"p": m} }
	}
	for name, test := range map[string]struct {
		change func(*pack.Config)
		says   string // empty: valid
	}{
		"defaults":      {func(*pack.Config) {}, ""},
		"file":          {with(pack.Mount{File: "eu/city.pmtiles"}), ""},
		"key":           {with(pack.Mount{Key: "maps.example.org/city.pmtiles"}), ""},
		"no directory":  {func(c *pack.Config) { c.Dir = "" }, "edge.dir is empty"},
		"small cache":   {func(c *pack.Config) { c.PackCache = 1<<20 - 1 }, "edge.pack_cache is 1048575"},
		"large cache":   {func(c *pack.Config) { c.PackCache = 4<<30 + 1 }, "edge.pack_cache is"},
		"no origins":    {func(c *pack.Config) { c.CORS = nil }, ""},
		"bad origin":    {func(c *pack.Config) { c.CORS = []string{"https://a.example/"} }, "edge.cors contains"},
		"nothing":       {with(pack.Mount{}), "edge.packs.p has neither file nor key"},
		"both":          {with(pack.Mount{File: "x", Key: "x"}), "edge.packs.p has both file and key"},
		"absolute":      {with(pack.Mount{File: "/x"}), `edge.packs.p.file is "/x"`},
		"upwards":       {with(pack.Mount{File: "a/../../x"}), "edge.packs.p.file is"},
		"around":        {with(pack.Mount{File: "a/../x"}), "edge.packs.p.file is"},
		"the directory": {with(pack.Mount{File: "."}), "edge.packs.p.file is"},
		"not UTF-8":     {with(pack.Mount{File: "\xff"}), "edge.packs.p.file is"},
		"zero byte":     {with(pack.Mount{Key: "a\x00"}), "edge.packs.p.key is"},
		"space":         {with(pack.Mount{Key: "a b"}), "edge.packs.p.key is"},
		"long":          {with(pack.Mount{Key: strings.Repeat("a", 1025)}), "edge.packs.p.key is"},
	} {
		c := pack.DefaultConfig()
		test.change(&c)
		err := c.Validate()
		if test.says == "" && err != nil || test.says != "" &&
			(status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"a": true, "0": true, "city-1_x": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "_a": false, "A": false, "a.b": false, "a/b": false, "..": false, "ä": false, "a\n": false,
		"a b": false, strings.Repeat("a", 64): false,
	} {
		c := pack.DefaultConfig()
		c.Packs = map[string]pack.Mount{name: {File: "x"}}
		err := c.Validate()
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "edge.packs.") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
