package fill_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"allium/gateway/fill"
	"allium/protocols/status"
)

func TestConfig(t *testing.T) {
	t.Parallel()
	with := func(change func(*fill.Source)) func(*fill.Config) {
		return func(c *fill.Config) {
			s := fill.DefaultSource()
			change(&s)
			c.Sources = map[string]fill.Source{"s": s}
		}
	}
	mirrors := slices.Repeat([]string{"https://a.example"}, fill.MaxURLs+1)
	for name, test := range map[string]struct {
		change func(*fill.Config)
		says   string // empty: valid
	}{
		"defaults":     {func(*fill.Config) {}, ""},
		"offline":      {func(c *fill.Config) { c.Mode = fill.Offline }, ""},
		"mode":         {func(c *fill.Config) { c.Mode = "on" }, `edge.mode is "on", must be live or offline`},
		"no fills":     {func(c *fill.Config) { c.Fills = 0 }, "edge.fills is 0"},
		"many fills":   {func(c *fill.Config) { c.Fills = 1025 }, "edge.fills is 1025"},
		"small body":   {func(c *fill.Config) { c.FillBytes = 1 }, "edge.fill_bytes is"},
		"large body":   {func(c *fill.Config) { c.FillBytes = 1<<40 + 1 }, "edge.fill_bytes is"},
		"fresh":        {func(c *fill.Config) { c.MinFresh = c.MaxFresh + 1 }, "edge.min_fresh is"},
		"never fresh":  {func(c *fill.Config) { c.MinFresh, c.MaxFresh, c.MaxStale = 0, 0, 0 }, ""},
		"before":       {func(c *fill.Config) { c.MinFresh = -1 }, "edge.min_fresh is"},
		"long fresh":   {func(c *fill.Config) { c.MaxFresh = 8760*time.Hour + 1 }, "edge.max_fresh is"},
		"stale before": {func(c *fill.Config) { c.MaxStale = -1 }, "edge.max_stale is"},
		"directory":    {with(func(s *fill.Source) { s.Key = "b3:00" }), ""},
		"mirrors":      {with(func(s *fill.Source) { s.URLs = mirrors[1:]; s.RequireETag = "any" }), ""},
		"more mirrors": {with(func(s *fill.Source) { s.URLs = mirrors }), "edge.sources.s.urls has 9 URLs"},
		"nothing":      {with(func(*fill.Source) {}), "edge.sources.s has none of key, url and urls"},
		"two":          {with(func(s *fill.Source) { s.Key, s.URL = "b3:00", mirrors[0] }), "edge.sources.s has more than"},
		"both":         {with(func(s *fill.Source) { s.URL, s.URLs = mirrors[0], mirrors[1:] }), "s has more than one of"},
		"validator":    {with(func(s *fill.Source) { s.Key, s.RequireETag = "x", "" }), `edge.sources.s.require_etag is ""`},
		"idle private": {with(func(s *fill.Source) { s.Key, s.Private = "x", true }), "edge.sources.s.private is about"},
		"idle file":    {with(func(s *fill.Source) { s.Key, s.CAFile = "x", "ca.pem" }), "edge.sources.s.ca_file is about"},
		"bad key":      {with(func(s *fill.Source) { s.Key = "a b" }), "edge.sources.s.key is"},
		"bad manifest": {with(func(s *fill.Source) { s.URL, s.Manifest = mirrors[0], "a\tb" }), "edge.sources.s.manifest is"},
		"last mirror": {with(func(s *fill.Source) { s.URLs = []string{mirrors[0], "http://b.example"} }),
			`edge.sources.s.urls is "http://b.example"`},
		"name": {func(c *fill.Config) { c.Sources = map[string]fill.Source{"a/b": {Key: "x"}} },
			"edge.sources.a/b cannot be named so"},
	} {
		c := fill.DefaultConfig()
		test.change(&c)
		err := c.Validate()
		if test.says == "" && err != nil || test.says != "" &&
			(status.Of(err) != status.BadRequest || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestURLs: an origin is https (http with a manifest), and its URL says no more than a host, a port and a path.
func TestURLs(t *testing.T) {
	t.Parallel()
	for url, valid := range map[string]bool{
		"https://a.example": true, "https://a.example/": true, "https://a.example:8443/x/y%20z/": true,
		"https://[2001:db8::1]:443/x": true, "https://192.0.2.1/": true, "HTTPS://A.example/": true,
		"http://a.example": false, "ftp://a.example": false, "//a.example": false, "a.example": false, "": false,
		"https:a.example": false, "https:///x": false, "https://": false, "https://:443/": false, "https://a.example:/": false,
		"https://a.example:0/": false, "https://a.example:65536/": false, "https://a.example:x/": false,
		"https://u@a.example/": false, "https://u:secret@a.example/": false, "https://@a.example/": false,
		"https://u:secret@a.example:x/": false, "https://u:secret@%zz/": false, "http://u:secret@a.example/": false,
		"https://a.example/?": false, "https://a.example/?x=1": false, "https://a.example/#": false,
		"https://a.example/#x": false, "https://a.example/../x": false, "https://a.example/x/%2e%2e/": false,
		"https://a.example/./": false, "https://a.example/..%2fx": false, "https://a.example/a%5cb": false,
		"https://a.example/%00": false, "https://a.example/\n": false, "https://a.example\\@b.example/": false,
		"https://[fe80::1%25eth0]/": false, "https://a b.example/": false, " https://a.example/": false,
		"https://a.example/" + strings.Repeat("a", 2048): false,
		// What a client of an origin refuses is refused by the check of the configuration too.
		"https://2130706433/": false, "https://0x7f.1/": false, "https://1.2.3/": false, "https://a.example/x//y/": false,
		"https://a.example/x%2fy/": false, "https://a.example/%ff/": false, "https://a.example/x%09/": false,
		"https://a.example/" + strings.Repeat("a", 1025): false, "https://a.example/" + strings.Repeat("a", 1024): true,
	} {
		s := fill.DefaultSource()
		s.URL = url
		c := fill.DefaultConfig()
		c.Sources = map[string]fill.Source{"s": s}
		err := c.Validate()
		if (err == nil) != valid {
			t.Errorf("%q: %v", url, err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || len(err.Error()) > 400) {
			t.Errorf("%q: the error is %v", url, err)
		}
		s.URL, s.Manifest = strings.Replace(url, "https://", "http://", 1), "b3:00"
		c.Sources["s"] = s
		if err := c.Validate(); valid && err != nil || strings.HasPrefix(url, "ftp") && err == nil {
			t.Errorf("%q with a manifest: %v", s.URL, err)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	a, b := "https://a.example", "https://b.example"
	for _, test := range []struct {
		source fill.Source
		want   []string
	}{
		{fill.Source{Key: "x"}, nil}, {fill.Source{URL: a}, []string{a}},
		{fill.Source{URLs: []string{b, a}}, []string{b, a}},
	} {
		if got := test.source.Origins(); !slices.Equal(got, test.want) {
			t.Errorf("%+v has %q", test.source, got)
		}
	}
}
