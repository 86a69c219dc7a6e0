package pages

import (
	"net/http"
	"net/url"
	"strings"

	"allium/gateway/content/sorted"
	"allium/gateway/exchange"
	"allium/protocols/manifest"
	"allium/protocols/status"
)

// maxFilter bounds the text that names are filtered by, in bytes. It is the length of the longest name.
const maxFilter = 255

// The values of the parameter view.
const (
	ViewList    = "list"    // a directory as a table
	ViewGallery = "gallery" // a directory as tiles, with the images in it
	ViewFile    = "preview" // the page of a file
)

// The values of the parameter sort.
const (
	SortName = "name"
	SortSize = "size"
	SortKind = "kind"
)

// Orders are the orders that the parameter sort names.
var Orders = map[string]sorted.Order{SortName: sorted.ByName, SortSize: sorted.BySize, SortKind: sorted.ByKind}

// Query holds the choices that the query of a request makes for the page of a directory.
type Query struct {
	Format string // "html", "json", or "" if the request asks for no listing
	View   string // ViewList or ViewGallery
	Sort   string // SortName, SortSize or SortKind
	Desc   bool   // the reverse order
	Filter string // names have it somewhere, in any case; empty: all names
	Name   string // what the directory is called where its address alone names it; may be empty
}

// Params are the parameters of pages.
var Params = []exchange.Param{
	{
		Name: "format", Of: []string{"html", "json", "tar", "zip", "bundle"},
		Doc: "asks for a listing of a directory in that form, even if there is an index.html, or for all of it " +
			"in one answer (docs/http.md)",
	},
	{
		Name: "view", Of: []string{ViewList, ViewGallery, ViewFile},
		Doc: "asks for a page: of a directory as a list or a gallery, even if there is an index.html, or of a file",
	},
	{
		Name: "sort", Of: []string{SortName, SortSize, SortKind},
		Doc: "the order of a page of up to 10,000 entries, directories first; a longer one has the order of its bytes",
	},
	{Name: "order", Of: []string{"asc", "desc"}, Doc: "desc reverses it"},
	{Name: "filter", Doc: "the page has only names with this in them, in any case"},
	{Name: "name", Doc: "what a directory is called that its address alone names: the title of its page, " +
		"and the name of its archive"},
}

// ParseQuery parses the query of a request for a directory. A parameter that names a view or an order asks for a
// listing as HTML. The listing as JSON has one order, so these parameters are refused for it.
func ParseQuery(r *http.Request) (q Query, err error) {
	values := r.URL.Query()
	if q.Format, err = Choice(values, "format", "html", "json"); err != nil {
		return q, err
	}
	order, err := Choice(values, "order", "asc", "desc")
	if err == nil {
		q.Sort, err = Choice(values, "sort", SortName, SortSize, SortKind)
	}
	if err == nil {
		q.View, err = Choice(values, "view", ViewList, ViewGallery)
	}
	if err != nil {
		return q, err
	}
	q.Filter, q.Desc = strings.TrimSpace(values.Get("filter")), order == "desc"
	if len(q.Filter) > maxFilter {
		return q, status.Errorf(status.BadRequest, "parameter filter has %d bytes. Names have at most %d",
			len(q.Filter), maxFilter)
	}
	if q.Name, err = Called(values); err != nil {
		return q, err
	}
	asked := q.View != "" || q.Sort != "" || order != "" || values.Has("filter")
	switch {
	case asked && q.Format == "json":
		return q, status.Errorf(status.BadRequest, "the listing as JSON has one order and all entries. "+
			"Leave out view, sort, order and filter, or set format to html")
	case asked:
		q.Format = "html"
	case q.Format == "" && prefersJSON(r):
		q.Format = "json"
	}
	if q.View == "" {
		q.View = ViewList
	}
	if q.Sort == "" {
		q.Sort = SortName
	}
	return q, nil
}

// Called returns the parameter name, or "" if the query does not have it. The error is bad_request for what names no
// entry of a directory.
func Called(values url.Values) (string, error) {
	name := values.Get("name")
	if name == "" {
		return "", nil
	}
	if why := manifest.NameProblem(name); why != "" {
		return "", status.Errorf(status.BadRequest, "parameter name is %q: %s", exchange.Clip(name), why)
	}
	return name, nil
}

// Choice returns the value of a parameter, which must be one of allowed, or "" if the query does not have it.
func Choice(values url.Values, name string, allowed ...string) (string, error) {
	given := values[name]
	v := strings.Join(given, ",")
	if v == "" && len(given) < 2 {
		return "", nil
	}
	for _, a := range allowed {
		if v == a {
			return v, nil
		}
	}
	return "", status.Errorf(status.BadRequest, "parameter %s is %q. Set it to %s or %s", name, exchange.Clip(v),
		strings.Join(allowed[:len(allowed)-1], ", "), allowed[len(allowed)-1])
}

// prefersJSON reports whether the client accepts JSON and no page.
func prefersJSON(r *http.Request) bool {
	json, html := false, false
	for t, q := range exchange.Accepted(r.Header.Values("Accept")) {
		json = json || q > 0 && t == "application/json"
		html = html || q > 0 && t == "text/html"
	}
	return json && !html
}

// with returns the query of the same page with something changed. Defaults are left out, but for the view, which asks
// for a listing also where there is an index.html.
func (q Query) with(change func(*Query)) url.Values {
	change(&q)
	values := url.Values{"view": {q.View}}
	if q.Sort != SortName {
		values.Set("sort", q.Sort)
	}
	if q.Desc {
		values.Set("order", "desc")
	}
	if q.Filter != "" {
		values.Set("filter", q.Filter)
	}
	if q.Name != "" {
		values.Set("name", q.Name)
	}
	return values
}

// Tag returns the query as a part of an entity tag.
func (q Query) Tag() string {
	return q.Format + "?" + q.with(func(*Query) {}).Encode()
}
