package content

import (
	"html"
	"html/template"
	"io"
	"net/url"

	"allium/gateway/content/sorted"
	"allium/gateway/exchange"
	"allium/internal/limits"
)

// htmlListing writes a listing: its entries by itself, and what stands around them with the templates of pages.html.
// Its exported fields are the templates' data.
type htmlListing struct {
	pageTop
	Directory bool
	Up        bool

	Query   listingQuery
	Gallery bool
	Sorted  bool
	Busy    bool // it is not sorted, because others hold the memory for it
	Columns []column
	choices

	All   int   // entries of the directory so far
	Count int   // of them, those that are shown
	Bytes int64 // of the files that are shown

	q      pageQuery
	filter sorted.Filter
	line   []byte // of the latest entry
}

// choices are the buttons that lead to the directory in another form.
type choices struct {
	Views      []pageChoice
	Unfiltered pageChoice // the same page without a filter
	JSON       pageChoice
	Archives   []pageChoice // the directory in one file
}

// inForm returns the button for a value of the parameter format.
func inForm(label, format string) pageChoice {
	return pageChoice{Label: label, Query: url.Values{"format": {format}}}
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

// newHTMLListing returns the listing of t. path is the path that the client asked for, in its spelling.
func newHTMLListing(t target, path string, q pageQuery, f exchange.Frame, s shared) *htmlListing {
	l := &htmlListing{
		pageTop: newPageTop(t, f, s), Directory: true, Up: len(t.names) > 0, Gallery: q.view == viewGallery,
		Query: listingQuery{View: q.view, Filter: q.filter}, q: q, filter: sorted.NewFilter(q.filter),
		choices: choices{
			Unfiltered: pageChoice{Label: "Show all", Query: q.with(func(q *pageQuery) { q.filter = "" })},
			JSON:       inForm("as JSON", "json"),
			Archives:   []pageChoice{inForm("Download .zip", "zip"), inForm("Download .tar", "tar")},
		},
	}
	// A template would write + in a title as &#43;, and GDAL compares the bytes.
	title := "Index of " + html.EscapeString(f.Prefix+path)
	l.Index = template.HTML("<title>" + title + "</title>") //nolint:gosec // escaped
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

func (l *htmlListing) head(w io.Writer) error { return pageTemplates().ExecuteTemplate(w, "head", l) }
func (l *htmlListing) foot(w io.Writer) error { return pageTemplates().ExecuteTemplate(w, "foot", l) }

func (l *htmlListing) begin(w io.Writer, o order) error {
	l.Sorted, l.Busy = o == asAsked, o == tooBusy
	for _, c := range []struct{ key, label, class string }{
		{sortName, "Name", "name"}, {sortKind, "Kind", "kind"}, {sortSize, "Size", "size"},
	} {
		l.Columns = append(l.Columns, l.column(c.key, c.label, c.class))
	}
	return pageTemplates().ExecuteTemplate(w, "begin", l)
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

// Total returns the size of the files in the listing, in words.
func (l *htmlListing) Total() string { return limits.Bytes(l.Bytes).Human() }
