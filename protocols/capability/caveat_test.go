package capability

import (
	"strings"
	"testing"

	"allium/protocols/status"
)

// TestCaveatText: what is read is written the same, or in its canonical form.
func TestCaveatText(t *testing.T) {
	t.Parallel()
	hex := object.String()
	for in, want := range map[string]string{
		"op in get":                       "",
		"op in get,put":                   "",
		"op in later-than-this":           "",
		"obj ^= b3:":                      "",
		"obj ^= b3:0af":                   "",
		"obj ^= " + hex:                   "",
		"name ^= docs.":                   "",
		"name ^= böhm":                    "",
		"method in GET,PUT,object.put":    "",
		"bytes <= 0":                      "",
		"bytes <= 10MiB":                  "",
		"bytes <= 10485760":               "bytes <= 10MiB",
		"bytes <= 1.5GiB":                 "bytes <= 1536MiB",
		"bytes <= 9223372036854775807":    "",
		"rate <= 1":                       "",
		"rate <= 0020":                    "rate <= 20",
		"exp < 2026-01-02T15:04:05Z":      "",
		"exp < 2026-01-02T15:04:05+02:00": "exp < 2026-01-02T13:04:05Z",
		"exp < 9999-12-31T23:59:59Z":      "",
		"aud = 12D3KooWQYV9dGMFoRzNStwpXztXaBUjtPqi6aU76ZgUriHhKust": "",
		"label = photos":                           "",
		"label = my photos, böhm = 1":              "",
		"label = " + strings.Repeat("x", maxLabel): "",
	} {
		c, err := ParseCaveat(in)
		if want == "" {
			want = in
		}
		if err != nil || c.String() != want {
			t.Errorf("%q: %q, %v; want %q", in, c, err, want)
		}
		if again, err := ParseCaveat(c.String()); err != nil || again != c {
			t.Errorf("%q: %q, %v", c, again, err)
		}
	}
	for _, in := range []string{
		"", " ", "op", "op ", "op in", "op in ", "op in  get", " op in get", "op in get ", "op in get,", "op in ,get",
		"op in get, put", "op in GET",
		"op in 1", "op in " + strings.Repeat("g", maxWord+1), "op in " + strings.Repeat("g,", maxWords) +
			"g", "op  in get", "op IN get", "op = get", "OP in get",
		"obj ^= ", "obj ^= b3", "obj ^= 0af", "obj ^= b3:0AF", "obj ^= b3:0g", "obj ^= " + hex + "0", "obj = " + hex,
		"name ^= ", "name ^= a b", "name ^= a\n", "name ^= \xff", "name ^= a\u200bb",
		"name ^= " + strings.Repeat("x", maxName+1),
		"method in ", "method in GET;PUT", "method in /put",
		"bytes <= ", "bytes <= -1", "bytes <= 1e9", "bytes <= 0x10", "bytes <= inf", "bytes <= NaN", "bytes <= 1 MiB",
		"bytes <= MiB", "bytes <= +5", "bytes <= 9223372036854775808", "bytes < 5",
		"rate <= 0", "rate <= -1", "rate <= 1.5", "rate <= 10/s", "rate <= 1048577", "rate <= 99999999999999999999",
		"exp < ", "exp < 2026-01-02", "exp < 2026-01-02T15:04:05", "exp < 2026-01-02T15:04:05.5Z",
		"exp < 1969-12-31T23:59:59Z", "exp < 0000-01-01T00:00:00Z", "exp <= 2026-01-02T15:04:05Z", "exp < 1767366245",
		"label = ", "label", "label =photos", "label =  photos", "label = photos ", "label ^= photos", "label = a\tb",
		"label = a\u00a0", "label = a\xff", "label = " + strings.Repeat("x", maxLabel+1),
		"aud = ", "aud = a b", "aud = a/b", "aud = " + strings.Repeat("x", maxPeer+1), "time < 2026-01-02T15:04:05Z",
		"op in get\x00", strings.Repeat("x", maxCaveat+1),
	} {
		if c, err := ParseCaveat(in); status.Of(err) != status.BadRequest || c != (Caveat{}) {
			t.Errorf("%q: %q, %v", in, c, err)
		}
	}
	if s := (Caveat{}).String(); s != "" {
		t.Errorf("the zero caveat is %q", s)
	}
}

// TestInspect: what caveats come to, without the key.
func TestInspect(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	for _, c := range []struct {
		caveats []string
		want    func(i *Info)
		nothing string
	}{
		{nil, func(*Info) {}, ""},
		{[]string{"op in get,put,pin", "op in pin,put"}, func(i *Info) { i.Ops = []string{"put", "pin"} }, ""},
		{[]string{"op in get", "op in pin"}, func(i *Info) { i.Ops = []string{} }, "op in pin"},
		{[]string{"op in get", "op in pin", "op in get"}, func(i *Info) { i.Ops = []string{} }, "op in pin"},
		{[]string{"obj ^= b3:a", "obj ^= b3:ab", "obj ^= b3:"}, func(i *Info) { i.Object = "b3:ab" }, ""},
		{[]string{"obj ^= b3:a", "obj ^= b3:b"}, func(i *Info) { i.Object = "b3:b" }, "obj ^= b3:b"},
		{[]string{"name ^= docs.", "name ^= d"}, func(i *Info) { i.Name = "docs." }, ""},
		{[]string{"method in GET,PUT", "method in PUT"}, func(i *Info) { i.Methods = []string{"PUT"} }, ""},
		{[]string{"bytes <= 5", "bytes <= 9"}, func(i *Info) { i.MaxBytes = 5 }, ""},
		{[]string{"bytes <= 0"}, func(i *Info) { i.MaxBytes = 0 }, ""},
		{[]string{"rate <= 9", "rate <= 5"}, func(i *Info) { i.Rate = 5 }, ""},
		{[]string{"label = a", "label = a"}, func(i *Info) { i.Label = "a" }, ""},
		{[]string{"label = a", "label = b"}, func(i *Info) { i.Label = "b" }, "label = b"},
		{[]string{"aud = a", "aud = a"}, func(i *Info) { i.Node = "a" }, ""},
		{[]string{"aud = a", "aud = b"}, func(i *Info) { i.Node = "b" }, "aud = b"},
		{[]string{"exp < 2026-03-01T12:00:01Z"},
			func(i *Info) { i.Expires = caveat(t, "exp < 2026-03-01T12:00:01Z").time() },
			""},
	} {
		got, err := Inspect(mint(t, r, append([]string{inAnHour}, c.caveats...)...))
		if err != nil {
			t.Fatal(err)
		}
		want := Info{ID: got.ID, Branch: got.Branch, KeyID: 1, Issued: start, Expires: caveat(t, inAnHour).time(),
			MaxBytes: -1, Caveats: append([]string{inAnHour}, c.caveats...)}
		c.want(&want)
		if (got.Nothing != "") != (c.nothing != "") || !strings.Contains(got.Nothing, c.nothing) {
			t.Errorf("%v: nothing because %q, want %q", c.caveats, got.Nothing, c.nothing)
		}
		got.Nothing = ""
		if g, w := shown(got), shown(want); g != w {
			t.Errorf("%v:\n%s, want\n%s", c.caveats, g, w)
		}
	}
	i, err := Inspect(text.EncodeToString(raw(t, forge(t, r, goodID(), "", "x\x1b[2J"))))
	if err != nil || i.Nothing == "" || strings.Contains(shown(i), "\x1b") {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := Inspect("nonsense"); RefusalOf(err) != string(Malformed) {
		t.Error(err)
	}
}

// TestIdentify: the key says whether a ring minted a token, whatever it allows.
func TestIdentify(t *testing.T) {
	t.Parallel()
	r := newRing(t)
	token := mint(t, r, inAnHour, "aud = elsewhere")
	if i, err := r.Identify(token); err != nil || i.Node != "elsewhere" {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := newRing(t).Identify(token); RefusalOf(err) != string(BadSignature) {
		t.Error(err)
	}
	if _, err := (Ring{}).Identify(token); RefusalOf(err) != string(UnknownKey) {
		t.Error(err)
	}
	if _, err := r.Identify("nonsense"); RefusalOf(err) != string(Malformed) {
		t.Error(err)
	}
}
