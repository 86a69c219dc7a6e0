package content

import (
	"fmt"
	"html"
	"html/template"
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
	Views      []pageChoice
	Columns    []column
	Unfiltered pageChoice // the same page without a filter
	JSON       pageChoice

	All   int   // entries of the directory so far
	Count int   // of them, those that are shown
	Bytes int64 // of the files that are shown

	q      pageQuery
	filter filter
}

// listingQuery holds the parameters that the form of a listing sends again. Defaults are empty.
type listingQuery struct{ View, Sort, Order, Filter string }

// pageChoice is a button that leads to the same page in another form.
type pageChoice struct {
	Label  string
	Query  url.Values
	Active bool
}

// column is a column of the listing that can be sorted by. Query and Aria are empty in a listing that is not sorted.
type column struct {
	pageChoice
	Class, Aria string
}

// row is one entry of the listing.
type row struct {
	Name, Note, Size, Exact string
	Icon, Kind              string
	URL                     string // of the entry itself
	Page                    string // URL of what shows the entry to people
	Object, Address, Short  string // the URL of its bytes, and their address; empty for a link
	Directory, File         bool
	Look                    bool // Page is another page than the entry itself
	Picture                 bool // a gallery shows the file
}

// newHTMLListing returns the listing of t. path is the path that the client asked for, in its spelling.
func newHTMLListing(t target, path string, q pageQuery, f exchange.Frame, s shared) *htmlListing {
	l := &htmlListing{
		pageTop: newPageTop(t, f, s), Directory: true, Up: len(t.names) > 0, Gallery: q.view == viewGallery,
		Query: listingQuery{View: q.view, Filter: q.filter}, q: q, filter: newFilter(q.filter),
		Unfiltered: pageChoice{Label: "Show all", Query: q.with(func(q *pageQuery) { q.filter = "" })},
		JSON:       pageChoice{Label: "as JSON", Query: url.Values{"format": {"json"}}},
	}
	// A template would write + in a title as &#43;, and GDAL compares the bytes.
	l.Index = template.HTML("<title>Index of " + html.EscapeString(f.Prefix+path) + "</title>") //nolint:gosec // escaped
	if q.sort != sortName {
		l.Query.Sort = q.sort
	}
	if q.desc {
		l.Query.Order = "desc"
	}
	for _, v := range []struct{ view, label string }{{viewList, "List"}, {viewGallery, "Gallery"}} {
		query := q.with(func(q *pageQuery) { q.view = v.view })
		l.Views = append(l.Views, pageChoice{v.label, query, v.view == q.view})
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

// column returns a column whose button sorts by it, or reverses the order if the listing is sorted by it.
func (l *htmlListing) column(key, label, class string) column {
	c := column{pageChoice{Label: label}, class, ""}
	if !l.Sorted {
		return c
	}
	c.Active = key == l.q.sort
	c.Query = l.q.with(func(q *pageQuery) { q.sort, q.desc = key, c.Active && !q.desc })
	switch {
	case c.Active && l.q.desc:
		c.Aria, c.Label = "descending", label+" ↓"
	case c.Active:
		c.Aria, c.Label = "ascending", label+" ↑"
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
	r := row{Name: exchange.EscapeName(e.Name), URL: percentEncode(e.Name), Icon: k.Icon, Kind: k.Name}
	r.Page = r.URL
	switch e.Kind {
	case manifest.Directory:
		r.Directory = true
		r.URL += "/"
		r.Page = r.URL + "?view=" + viewGallery
	case manifest.Link:
		r.Note = "→ " + exchange.EscapeName(e.Target)
	case manifest.File:
		l.Bytes += e.Size
		r.Size, r.Exact = limits.Bytes(e.Size).Human(), fmt.Sprintf("%d bytes", e.Size)
		page := pageOf(e.Name)
		r.File, r.Look, r.Page = true, page != "", r.URL+page
		if e.Executable {
			r.Note = "executable"
		}
		r.Picture = k == kindImage && e.Size <= maxThumbnail
	}
	if !e.Root.IsZero() {
		r.Address, r.Short = e.Root.String(), e.Root.Hex()[:8]
		r.Object = l.Prefix + "/o/" + r.Address
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
