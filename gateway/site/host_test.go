package site

import (
	"crypto/sha256"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/idna"
	"pgregory.net/rapid"

	"allium/protocols/b3"
	"allium/protocols/name"
	"allium/protocols/status"
)

var (
	zone  = name.Zone{1, 2, 31: 7}
	empty = b3.Sum(nil)
)

// TestHostOf has the host of each kind of key, which is part of the contract.
func TestHostOf(t *testing.T) {
	t.Parallel()
	const digits = "00wjxo4m98i5f4fv5nyppihb8csc9oulzxu0bxksb22kv81wqv"
	for _, c := range []struct {
		key  Key
		want string
	}{
		{OfRoot(empty), "bafkr4ifpcne3t5pzugtkaqcn5i3nzskjtpfslsnnyejlpte2spfoihzsmi.b3.localhost:8080"},
		{OfName("blog." + zone.String()), "blog-" + digits + ".n3.localhost:8080"},
		{OfName("Blog." + zone.ID().String()), "blog-" + digits + ".n3.localhost:8080"}, // case matters in this form
		{OfName("a-b-c." + zone.String()), "a-b-c-" + digits + ".n3.localhost:8080"},
		{OfName("twelve-chars." + zone.String()), "twelve-chars-" + digits + ".n3.localhost:8080"},
		{OfName("thirteen-char." + zone.String()), "*"},
		{OfName("bücher." + zone.String()), "*"},
		{OfName("docs.alice"), "docs-alice.n3.localhost:8080"},
		{OfName("WWW.my-site.example.org"), "www-my--site-example-org.n3.localhost:8080"},
		{OfName("xn--strae-oqa.example"), "*"},
		{OfName("bücher.example"), "*"},
		{OfName("-a.example"), "*"},
		{OfName("a_b.example"), "*"},
		{OfName("a." + strings.Repeat("z", 50)), "*"},
		{OfName(strings.Repeat("abc.", 15) + "example"), "*"},
	} {
		host, remembered := HostOf(c.key, "localhost:8080")
		switch label, _, _ := strings.Cut(host, "."); {
		case c.want == "*":
			if !remembered || len(label) != 52 || !strings.HasSuffix(host, ".n3.localhost:8080") {
				t.Errorf("%+v: %s %t, want the hash", c.key, host, remembered)
			}
		case c.want != "" && (host != c.want || remembered):
			t.Errorf("%+v: %s %t, want %s", c.key, host, remembered, c.want)
		}
		back, ok, err := ParseHost(strings.TrimSuffix(host, ":8080"), "localhost")
		want := c.key
		if remembered {
			want.Name = ""
		}
		if !ok || err != nil || back != want {
			t.Errorf("%s: %+v %t %v, want %+v", host, back, ok, err, want)
		}
	}
}

// TestParseHost: labels of no form are bad_address, and hosts that are not below the gateway are not of its labels.
func TestParseHost(t *testing.T) {
	t.Parallel()
	cid := empty.CID().String()
	for host, want := range map[string]status.Outcome{
		cid + ".b3.gw.example": status.OK, "localhost": status.Unsupported, "gw.example": status.Unsupported,
		cid + ".gw.example": status.Unsupported, cid + ".b3.gw.example.org": status.Unsupported,
		"x" + cid + ".b3.gw.example": status.BadAddress, cid + "a.b3.gw.example": status.BadAddress,
		cid[:58] + ".b3.gw.example": status.BadAddress, cid[:58] + "j.b3.gw.example": status.BadAddress, // last bits
		"b3.gw.example": status.BadAddress, ".b3.gw.example": status.BadAddress,
		"a." + cid + ".b3.gw.example":                                  status.BadAddress,
		strings.Repeat("a", 64) + ".b3.gw.example":                     status.BadAddress,
		"QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG.b3.gw.example": status.BadAddress,
		empty.Hex() + ".b3.gw.example":                                 status.BadAddress,
		"n3.gw.example":                                                status.BadAddress,
		"a.n3.gw.example":                                              status.BadAddress,
		"-a-b.n3.gw.example":                                           status.BadAddress,
		strings.Repeat("a", 52) + ".n3.gw.example":                     status.OK,
		strings.Repeat("a", 51) + "b.n3.gw.example":                    status.BadAddress,
		"a-" + strings.Repeat("z", 50) + ".n3.gw.example":              status.BadAddress, "a-b.n3.gw.example": status.OK,
		"xn--a.n3.gw.example": status.BadAddress, "a---b.n3.gw.example": status.OK, "a_b-c.n3.gw.example": status.BadAddress,
		"a-" + strings.Repeat("0", 50) + ".n3.gw.example": status.BadAddress,
		strings.Repeat("a-", 32) + ".n3.gw.example":       status.BadAddress,
	} {
		k, ok, err := ParseHost(host, "gw.example")
		if !ok && want != status.Unsupported || ok && status.Of(err) != want || (err != nil || !ok) && !k.IsZero() {
			t.Errorf("%s: %+v %t %v, want %s", host, k, ok, err, want)
		}
	}
}

// TestNoTwo: no two names have one host, and each host that a browser is sent to stays as it is.
func TestNoTwo(t *testing.T) {
	t.Parallel()
	text := rapid.OneOf(
		rapid.StringMatching(`[a-z0-9-]{1,16}(\.[a-z0-9-]{1,16}){1,3}`),
		rapid.Map(rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,14}[a-z0-9])?`),
			func(s string) string { return s + "." + zone.String() }),
	)
	rapid.Check(t, func(t *rapid.T) {
		a, b := OfName(text.Draw(t, "a")), OfName(text.Draw(t, "b"))
		atA, hashed := HostOf(a, "localhost")
		if atB, _ := HostOf(b, "localhost"); (a == b) != (atA == atB) {
			t.Fatalf("%+v at %s and %+v at %s", a, atA, b, atB)
		}
		if to, err := idna.New(idna.CheckHyphens(false)).ToASCII(atA); err != nil || to != atA {
			t.Fatalf("a browser makes %q of %q (%v)", to, atA, err)
		}
		if hashed != (a.Digest != [sha256.Size]byte{}) {
			t.Fatalf("%+v: remembered is %t", a, hashed)
		}
	})
}

// FuzzParseHost: what a label says has that label, and never panics.
func FuzzParseHost(f *testing.F) {
	for _, k := range []Key{OfRoot(empty), OfName("blog." + zone.String()), OfName("a.b-c.de"), OfName("ü.example")} {
		host, _ := HostOf(k, "localhost")
		f.Add(host)
	}
	f.Add("xn--a-b.n3.localhost")
	f.Fuzz(func(t *testing.T, host string) {
		k, ok, err := ParseHost(host, "localhost")
		if !ok || err != nil {
			return
		}
		back, _ := HostOf(k, "localhost")
		if back != host {
			t.Errorf("%q is %+v of %q", host, k, back)
		}
		if u, err := url.Parse("http://" + back + "/"); err != nil || u.Hostname() != host {
			t.Errorf("%q is no host: %v", back, err)
		}
	})
}

// TestLinks: the path comes first, then each host; a host of a hash is no link.
func TestLinks(t *testing.T) {
	t.Parallel()
	name := "blog." + zone.String()
	g := Gateway{"http://127.0.0.1:8080", []string{"http://localhost:8080", "https://gw.example.org"},
		map[string][]string{empty.String(): {"https://a.example/", "https://b.example/"}, name: {"https://c.example/"}}}
	got := g.RootLinks(empty, "home/my site", true)
	if len(got) != 5 || got[0] != g.URL+"/b3/"+empty.String()+"/?name=my+site" ||
		got[1] != "http://bafkr4ifpcne3t5pzugtkaqcn5i3nzskjtpfslsnnyejlpte2spfoihzsmi.b3.localhost:8080/" ||
		!strings.HasPrefix(got[2], "https://bafk") || got[3] != "https://a.example/" || got[4] != "https://b.example/" {
		t.Errorf("a directory: %q", got)
	}
	if got := g.RootLinks(empty, "a \"b\"?c#d&e;%\r\nx.txt", false); len(got) != 3 ||
		got[0] != g.URL+"/o/"+empty.String()+"/a%20%22b%22%3Fc%23d&e%3B%25%0D%0Ax.txt" || got[1] != "https://a.example/" {
		t.Errorf("a file: %q", got)
	}
	// A name that no entry may have is left out: a gateway refuses it.
	for _, at := range []string{"", ".", "..", "/", "a\x00", "a\xff", "u\u0308", strings.Repeat("n", 300)} {
		if got := g.RootLinks(empty, at, false); got[0] != g.URL+"/b3/"+empty.String() {
			t.Errorf("a file at %q: %q", at, got[0])
		}
		if got := g.RootLinks(empty, at, true); got[0] != g.URL+"/b3/"+empty.String()+"/" {
			t.Errorf("a directory at %q: %q", at, got[0])
		}
	}
	if got := g.NameLinks(name); len(got) != 4 || got[3] != "https://c.example/" || got[0] != g.URL+"/n/"+name || !strings.Contains(got[1], ".n3.") {
		t.Errorf("a name: %q", got)
	}
	if got := g.NameLinks("bücher." + zone.String()); len(got) != 1 {
		t.Errorf("a name with a hash as its host: %q", got)
	}
	if got := (Gateway{}).RootLinks(empty, "a", true); got != nil {
		t.Errorf("without a gateway: %q", got)
	}
}
