package pages

import (
	"io"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"allium/gateway/exchange"
	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// TestEntriesHoldTheirNames: whatever the name or the target of an entry, a browser finds one entry with that text,
// whose first link leads to that name, and no element or attribute that another name does not have.
func TestEntriesHoldTheirNames(t *testing.T) {
	text := rapid.StringMatching(`[a<>"'&;=+%#?:\\ /\x00-\x1f\x{202e}\x{e9}\x{1f600}-]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		e := manifest.Entry{
			Kind: rapid.SampledFrom([]manifest.EntryKind{manifest.File, manifest.Directory, manifest.Link}).Draw(t,
				"kind"),
			Name: strings.ReplaceAll(text.Draw(t, "name"), "/", "_"),
		}
		if e.Kind == manifest.Link {
			e.Target = text.Draw(t, "target")
		} else {
			e.Root = b3.Sum([]byte(e.Name))
		}
		plain := e
		plain.Name, plain.Target = "a", "b"
		for _, gallery := range []bool{false, true} {
			got, want := readEntry(t, gallery, &e), readEntry(t, gallery, &plain)
			if got.shape != want.shape {
				t.Fatalf("%q has the elements %s, not %s", e.Name, got.shape, want.shape)
			}
			if shown := exchange.EscapeName(e.Name); !strings.HasPrefix(got.text, shown) {
				t.Errorf("%q is shown as %q", e.Name, got.text)
			}
			if name, err := url.PathUnescape(strings.TrimSuffix(got.link, "/")); err != nil || name != e.Name {
				t.Errorf("%q links to %q (%v)", e.Name, got.link, err)
			}
		}
	})
}

// readTag is what a browser finds in one entry.
type readTag struct {
	shape string // the elements and the names of their attributes
	text  string
	link  string // the path of the first link
}

// readEntry writes e and reads it.
func readEntry(t *rapid.T, gallery bool, e *manifest.Entry) (found readTag) {
	l := Listing{Gallery: gallery}
	var page strings.Builder
	if err := l.Entry(&page, e); err != nil {
		t.Fatal(err)
	}
	z := html.NewTokenizer(strings.NewReader(page.String()))
	for z.Next() != html.ErrorToken {
		switch token := z.Token(); token.Type {
		case html.TextToken:
			found.text += token.Data
		default:
			found.shape += token.Type.String() + token.Data
			for _, a := range token.Attr {
				found.shape += " " + a.Key
				if a.Key == "href" && token.Data == "a" && found.link == "" {
					found.link, _, _ = strings.Cut(a.Val, "?")
				}
			}
		}
	}
	return found
}

func BenchmarkListingEntry(b *testing.B) {
	e := manifest.Entry{Kind: manifest.File, Name: "IMG_20240607.jpg", Size: 123456, Root: b3.Sum(nil)}
	var l Listing
	b.ReportAllocs()
	for b.Loop() {
		if err := l.Entry(io.Discard, &e); err != nil {
			b.Fatal(err)
		}
	}
}
