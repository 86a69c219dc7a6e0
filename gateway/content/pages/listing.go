package pages

import (
	"html"
	"html/template"
	"io"
	"net/url"

	"allium/gateway/content/sorted"
	"allium/internal/limits"
	"allium/protocols/manifest"
)

// Writer writes the parts of a listing in this order.
type Writer interface {
	Head(w io.Writer) error
	// Begin writes what precedes the entries and depends on their order. known is what they are together, or nil if
	// nobody has counted them.
	Begin(w io.Writer, order Order, known *Totals) error
	Entry(w io.Writer, e *manifest.Entry) error
	Foot(w io.Writer) error
}

// Order says in what order a listing has its entries, and why.
type Order uint8

// The orders.
const (
	AsAsked Order = iota // sorted
	TooLong              // of their bytes: the directory is too long to be sorted
	TooBusy              // of their bytes: other listings hold the memory for it
)

// Totals count the entries of a directory.
type Totals struct {
	Entries     int
	Directories int   // of the entries; nobody knows what is in them
	Bytes       int64 // of the files among the entries
}

// Add counts e.
func (t *Totals) Add(e *manifest.Entry) {
	t.Entries++
	switch e.Kind {
	case manifest.Directory:
		t.Directories++
	case manifest.File:
		t.Bytes += e.Size
	}
}

// Size returns Bytes in words.
func (t *Totals) Size() string { return limits.Bytes(t.Bytes).Human() }

// Readme is the text below a listing: one of the three is set.
type Readme struct {
	Name  string        // of the file
	URL   string        // of its page
	Prose template.HTML // rendered Markdown
	Text  template.HTML // escaped text
	Why   string        // why it is not shown
}

// Listing is the [Writer] of a listing as HTML. It writes the entries by itself, and what stands around them with
// templates. Its exported fields are the templates' data.
type Listing struct {
	Top
	Directory bool
	Up        bool

	Query   Query
	Gallery bool
	order
	choices

	Shown  Totals  // the entries that are shown, so far
	All    int     // entries of the directory, so far
	Readme *Readme // shown below the entries; nil: nothing

	filter sorted.Filter
	line   []byte // of the latest entry
}

// order says how a listing is ordered, and what is known of it before its entries.
type order struct {
	Sorted  bool
	Busy    bool    // it is not sorted, because others hold the memory for it
	Known   *Totals // of all entries; nil: they are not counted
	Columns []column
}

// choices are the buttons that lead to the directory in another form.
type choices struct {
	Views      []button
	Unfiltered button // the same page without a filter
	JSON       button
	Archives   []button // the directory in one file
}

// button leads to the same page in another form.
type button struct {
	Label  string
	Query  url.Values
	Active bool
}

// column is a column of the listing that can be sorted by. Query and Aria are empty in a listing that is not sorted.
type column struct {
	button
	Class, Aria string
}

// NewListing returns the listing of a directory. path is the path that the client asked for, in its spelling.
func NewListing(top Top, path string, up bool, q Query) *Listing {
	// GDAL reads a directory if a line has this title of its path, and compares the bytes: a template would write + as
	// &#43;. A browser shows the name.
	title := "Index of " + html.EscapeString(top.Prefix+path)
	top.Index = template.HTML("<!-- <title>" + title + "</title> -->") //nolint:gosec // escaped, so it has no ">"
	l := &Listing{
		Top: top, Directory: true, Up: up, Gallery: q.View == ViewGallery, Query: q, filter: sorted.NewFilter(q.Filter),
		choices: choices{
			Unfiltered: button{Label: "Show all", Query: q.with(func(q *Query) { q.Filter = "" })},
			JSON:       q.inForm("as JSON", "json"),
			Archives:   []button{q.inForm("Download .zip", "zip"), q.inForm("Download .tar", "tar")},
		},
	}
	for _, v := range []struct{ view, label string }{{ViewList, "List"}, {ViewGallery, "Gallery"}} {
		query := q.with(func(q *Query) { q.View = v.view })
		l.Views = append(l.Views, button{v.label, query, v.view == q.View})
	}
	return l
}

// inForm returns the button for a value of the parameter format.
func (q Query) inForm(label, format string) button {
	values := url.Values{"format": {format}}
	if q.Name != "" && format != "json" {
		values.Set("name", q.Name)
	}
	return button{Label: label, Query: values}
}

// Head implements [Writer].
func (l *Listing) Head(w io.Writer) error { return Execute(w, "head", l) }

// Foot implements [Writer].
func (l *Listing) Foot(w io.Writer) error { return Execute(w, "foot", l) }

// Begin implements [Writer].
func (l *Listing) Begin(w io.Writer, o Order, known *Totals) error {
	l.Sorted, l.Busy, l.Known = o == AsAsked, o == TooBusy, known
	for _, c := range []struct{ key, label, class string }{
		{SortName, "Name", "name"}, {SortKind, "Kind", "kind"}, {SortSize, "Size", "size"},
	} {
		l.Columns = append(l.Columns, l.column(c.key, c.label, c.class))
	}
	return Execute(w, "begin", l)
}

// column returns a column whose button sorts by it, or reverses the order if the listing is sorted by it.
func (l *Listing) column(key, label, class string) column {
	c := column{button{Label: label}, class, ""}
	if !l.Sorted {
		return c
	}
	desc := l.Query.Desc
	c.Active = key == l.Query.Sort
	c.Query = l.Query.with(func(q *Query) { q.Sort, q.Desc = key, c.Active && !desc })
	switch {
	case c.Active && desc:
		c.Aria, c.Label = "descending", label+" ↓"
	case c.Active:
		c.Aria, c.Label = "ascending", label+" ↑"
	}
	return c
}

// Kept returns the parameters that the form of the filter sends again. Defaults are left out.
func (q Query) Kept() url.Values { return q.with(func(q *Query) { q.Filter = "" }) }
