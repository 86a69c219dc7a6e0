package content

import (
	"fmt"
	"io"
	"net/url"

	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/manifest"
)

// maxThumbnail is the largest image that a gallery shows, in bytes. A larger one has an icon there.
const maxThumbnail = 8 << 20

// htmlListing writes a listing with the templates of pages.html. Its fields are the templates'
// data.
type htmlListing struct {
	pageTop
	Directory bool
	Up        bool

	Query      listingQuery
	Gallery    bool
	Sorted     bool
	Busy       bool // it is not sorted, because others hold the memory for it
	Views      []choiceLink
	Columns    []column
	Unfiltered string // the URL of the same page without a filter

	All   int   // entries of the directory so far
	Count int   // of them, those that are shown
	Bytes int64 // of the files that are shown

	q      pageQuery
	filter filter
}

// listingQuery is what the form of a listing sends again. Defaults are empty.
type listingQuery struct{ View, Sort, Order, Filter string }

// choiceLink is a link to the same page in another form.
type choiceLink struct {
	Label, URL string
	Active     bool
}

// column is a column of the listing that can be sorted by. URL and Aria are empty in a listing that is not sorted.
type column struct{ Label, Class, URL, Aria, Arrow string }

// row is one entry of the listing.
type row struct {
	Name, URL, File, Picture, Note, Size, Exact string
	Icon, Kind                                  string
	Address, Short                              string
	Directory                                   bool
}

func newHTMLListing(t target, q pageQuery, s shared) *htmlListing {
	l := &htmlListing{
		pageTop: newPageTop(t, s), Directory: true, Up: len(t.names) > 0, Gallery: q.view == viewGallery,
		Query: listingQuery{View: q.view, Filter: q.filter}, q: q, filter: newFilter(q.filter),
		Unfiltered: q.with(func(q *pageQuery) { q.filter = "" }),
	}
	if q.sort != sortName {
		l.Query.Sort = q.sort
	}
	if q.desc {
		l.Query.Order = "desc"
	}
	for _, v := range []struct{ view, label string }{{viewList, "List"}, {viewGallery, "Gallery"}} {
		l.Views = append(l.Views, choiceLink{v.label, q.with(func(q *pageQuery) { q.view = v.view }), v.view == q.view})
	}
	return l
}

func (l *htmlListing) head(w io.Writer) error { return pageTemplates.ExecuteTemplate(w, "head", l) }
func (l *htmlListing) foot(w io.Writer) error { return pageTemplates.ExecuteTemplate(w, "foot", l) }

func (l *htmlListing) begin(w io.Writer, o order) error {
	l.Sorted, l.Busy = o == asAsked, o == tooBusy
	for _, c := range []struct{ key, label, class string }{
		{sortName, "Name", "name"}, {sortKind, "Kind", "kind"}, {sortSize, "Size", "size"},
	} {
		l.Columns = append(l.Columns, l.column(c.key, c.label, c.class))
	}
	return pageTemplates.ExecuteTemplate(w, "begin", l)
}

// column returns a column whose link sorts by it, or reverses the order if the listing is sorted by it.
func (l *htmlListing) column(key, label, class string) column {
	c := column{Label: label, Class: class}
	if !l.Sorted {
		return c
	}
	active := key == l.q.sort
	c.URL = l.q.with(func(q *pageQuery) { q.sort, q.desc = key, active && !q.desc })
	switch {
	case active && l.q.desc:
		c.Aria, c.Arrow = "descending", " ↓"
	case active:
		c.Aria, c.Arrow = "ascending", " ↑"
	}
	return c
}

func (l *htmlListing) entry(w io.Writer, e *manifest.Entry) error {
	l.All++
	if !l.filter.match(e.Name) {
		return nil
	}
	l.Count++
	k := kindOf(e)
	file := "./" + url.PathEscape(e.Name)
	r := row{Name: exchange.EscapeName(e.Name), URL: file, Icon: k.Icon, Kind: k.Name}
	switch e.Kind {
	case manifest.Directory:
		r.Directory = true
		r.URL += "/"
		if l.Gallery {
			r.URL += "?view=" + viewGallery
		}
	case manifest.Link:
		r.Note = "→ " + exchange.EscapeName(e.Target)
	case manifest.File:
		l.Bytes += e.Size
		r.Size, r.Exact = limits.Bytes(e.Size).Human(), fmt.Sprintf("%d bytes", e.Size)
		r.File, r.URL = file, file+pageOf(e.Name)
		if e.Executable {
			r.Note = "executable"
		}
		if k == kindImage && e.Size <= maxThumbnail {
			r.Picture = file
		}
	}
	if !e.Root.IsZero() {
		r.Address, r.Short = e.Root.String(), e.Root.Hex()[:8]
	}
	if l.Gallery {
		return pageTemplates.ExecuteTemplate(w, "tile", r)
	}
	return pageTemplates.ExecuteTemplate(w, "row", r)
}

// pageOf returns the query with which a file's URL leads to the page of the file, and "" for a web page, which is a
// page itself.
func pageOf(name string) string {
	if kindOfType(typeOf(name)) == kindWebPage {
		return ""
	}
	return "?view=" + viewPreview
}

// Total returns the size of the files in the listing, in words.
func (l *htmlListing) Total() string { return limits.Bytes(l.Bytes).Human() }
