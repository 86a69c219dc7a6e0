package content

import (
	"context"
	"iter"
	"net/http"
	"path"
	"strings"
	"time"

	"allium/gateway/content/mediatype"
	"allium/gateway/content/pages"
	"allium/gateway/content/rendering"
	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// The bounds of a text below a listing.
const (
	maxReadme  = 64 << 10        // bytes; for a longer one there is a link
	readmeWait = 2 * time.Second // for one that is fetched from peers
)

// readme is the text below the listing of one request: README.md, or another file of such a name. A page is for a
// program or for a person, and only a person gets it: a program would follow its links. The methods of nil do nothing.
type readme struct {
	entry   manifest.Entry // the zero Entry: none was seen
	tried   bool           // it was looked for in the store
	shown   *pages.Readme  // nil: it is to be fetched, or there is none
	release func()
}

// newReadme returns the readme of a listing, or nil if that shows none.
func newReadme(l *listing) *readme {
	at := l.t.mount
	if l.q.Filter != "" || !forPeople(l.r, at != nil) || at != nil && at.Plain {
		return nil
	}
	return &readme{release: func() {}}
}

// forPeople reports whether a browser asks for a person: it then sends Accept-Language. Programs that mirror
// directories accept HTML too, but send no language. page says that the answer is a page in any case.
func forPeople(r *http.Request, page bool) bool {
	return r.Header.Get("Accept-Language") != "" && (page || exchange.WantsPage(r))
}

// readmeRank returns how well a file serves as readme, 0 for not at all.
func readmeRank(e *manifest.Entry) int {
	name := strings.ToLower(e.Name)
	ext := path.Ext(name)
	if e.Kind != manifest.File || strings.TrimSuffix(name, ext) != "readme" {
		return 0
	}
	return map[string]int{".md": 4, ".markdown": 3, ".txt": 2, "": 1}[ext]
}

// see looks at an entry of the directory.
func (m *readme) see(e *manifest.Entry) {
	if m != nil && readmeRank(e) > readmeRank(&m.entry) {
		m.entry = *e
		m.entry.Name = strings.Clone(e.Name) // it shares memory with all names
	}
}

// watch sees the entries that pass.
func (m *readme) watch(entries iter.Seq2[manifest.Entry, error]) iter.Seq2[manifest.Entry, error] {
	if m == nil || m.tried {
		return entries
	}
	return func(yield func(manifest.Entry, error) bool) {
		for e, err := range entries {
			if err == nil {
				m.see(&e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// prepare looks for the readme in the store, before the header of the listing is sent. Caches keep no page whose
// readme is not there: it may not arrive in time.
func (m *readme) prepare(l *listing) {
	if m == nil || m.tried || m.entry.Name == "" {
		return
	}
	m.tried = true
	l.head.passing = l.head.passing || !m.read(l, true)
}

// show fetches the readme unless it is there, and gives it to the page.
func (m *readme) show(l *listing, page pages.Writer, to *output) error {
	if m == nil || m.entry.Name == "" {
		return nil
	}
	if m.shown == nil && !m.read(l, true) {
		if err := to.send(); err != nil { // a reader has the entries already
			return err
		}
		m.read(l, false)
	}
	page.(*pages.Listing).Readme = m.shown
	return nil
}

// read reads the readme and returns whether it is final: the same bytes are shown at any other time. Where it is not
// in the store and local is true, shown stays nil.
func (m *readme) read(l *listing, local bool) (final bool) {
	e := &m.entry
	to := exchange.PercentEncode(e.Name) + pages.OfName(e.Name)
	m.shown = &pages.Readme{Name: exchange.EscapeName(e.Name), URL: to}
	if e.Size > maxReadme {
		m.shown.Why = "It is longer than " + limits.Bytes(maxReadme).Human() + ", so it has a page of its own."
		return true
	}
	source, err := m.bytes(l, local)
	switch {
	case status.Of(err) == status.NotFound && local:
		m.shown = nil
		return false
	case status.Of(err) == status.Denied:
		m.shown.Why = "This gateway does not show it."
	case err != nil:
		m.shown.Why = "It did not arrive in time. Open it by itself."
	default:
		return m.render(l, source)
	}
	return false
}

// bytes returns the proved bytes of the readme.
func (m *readme) bytes(l *listing, local bool) ([]byte, error) {
	if err := l.g.denylist.Path(l.t.root, path.Join(l.t.path(), m.entry.Name)); err != nil {
		return nil, err
	}
	whole, lookup := l.b.mayStall(), l.b.w.LookupID
	defer func() { l.b.ctx, l.b.w.LookupID = whole, lookup }()
	ctx, cancel := context.WithTimeout(whole, readmeWait)
	defer cancel()
	l.b.ctx = ctx
	var c Content
	var err error
	if local {
		if err = l.g.denylist.Object(m.entry.Root); err == nil {
			c, err = l.g.objects.Open(ctx, m.entry.Root, OpenOptions{LocalOnly: true, Via: l.t.root})
		}
	} else {
		c, err = l.g.open(l.b, l.r, m.entry.Root, OpenOptions{Via: l.t.root, Whole: true})
	}
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if c.Size() != m.entry.Size {
		return nil, status.Errorf(status.Corrupt, "the directory says another size of %q", exchange.Clip(m.entry.Name))
	}
	var source headBuffer
	err = c.Copy(ctx, &source, 0, c.Size())
	return source, err
}

// render renders the readme: Markdown, or any other text as it is written.
func (m *readme) render(l *listing, source []byte) (final bool) {
	if !rendering.IsText(source) {
		m.shown.Why = "It is no text in UTF-8."
		return true
	}
	client := l.b.w.From.Group
	page, err := l.g.renderer.Render(client, rendering.Source{
		Bytes: source, ContentType: mediatype.OfName(m.entry.Name),
	})
	if err == nil {
		m.shown.Prose, m.release = page.Body, page.Release
		return true
	}
	page, ok := l.g.renderer.Plain(client, source)
	if !ok {
		m.shown.Why = "This gateway shows other texts at the moment. Open it by itself."
		return false
	}
	m.shown.Text, m.release = page.Body, page.Release
	return status.Of(err) != status.Busy
}

// free gives back the memory of the readme.
func (m *readme) free() {
	if m != nil {
		m.release()
	}
}
