package content

import (
	"net/http"
	"net/url"
	"strings"

	"allium/gateway/content/sorted"
	"allium/gateway/exchange"
	"allium/protocols/status"
)

// maxFilter bounds the text that names are filtered by, in bytes. It is the length of the longest name.
const maxFilter = 255

// The values of the parameter view.
const (
	viewList    = "list"    // a directory as a table
	viewGallery = "gallery" // a directory as tiles, with the images in it
	viewPreview = "preview" // the page of a file
)

// The values of the parameter sort.
const (
	sortName = "name"
	sortSize = "size"
	sortKind = "kind"
)

// orders are the orders that the parameter sort names.
var orders = map[string]sorted.Order{sortName: sorted.ByName, sortSize: sorted.BySize, sortKind: sorted.ByKind}

// pageQuery holds the choices that the query of a request makes for the page of a directory.
type pageQuery struct {
	format string // "html", "json", or "" if the request asks for no listing
	view   string // viewList or viewGallery
	sort   string // sortName, sortSize or sortKind
	desc   bool   // the reverse order
	filter string // names have it somewhere, in any case; empty: all names
}

// pageParams are the parameters of pages.
var pageParams = append([]exchange.Param{
	{
		Name: "format", Of: []string{"html", "json", "tar", "zip", "bundle"},
		Doc: "asks for a listing of a directory in that form, even if there is an index.html, or for all of it " +
			"in one answer (docs/http.md)",
	},
	{
		Name: "view", Of: []string{viewList, viewGallery, viewPreview},
		Doc: "asks for a page: of a directory as a list or a gallery, even if there is an index.html, or of a file",
	},
	{
		Name: "sort", Of: []string{sortName, sortSize, sortKind},
		Doc: "the order of a page of up to 10,000 entries, directories first; a longer one has the order of its bytes",
	},
	{Name: "order", Of: []string{"asc", "desc"}, Doc: "desc reverses it"},
	{Name: "filter", Doc: "the page has only names with this in them, in any case"},
}, folderParams...)

// parsePageQuery parses the query of a request for a directory. A parameter that names a view or an order asks for a
// listing as HTML. The listing as JSON has one order, so these parameters are refused for it.
func parsePageQuery(r *http.Request) (q pageQuery, err error) {
	values := r.URL.Query()
	if q.format, err = choice(values, "format", "html", "json"); err != nil {
		return q, err
	}
	order, err := choice(values, "order", "asc", "desc")
	if err == nil {
		q.sort, err = choice(values, "sort", sortName, sortSize, sortKind)
	}
	if err == nil {
		q.view, err = choice(values, "view", viewList, viewGallery)
	}
	if err != nil {
		return q, err
	}
	q.filter, q.desc = strings.TrimSpace(values.Get("filter")), order == "desc"
	if len(q.filter) > maxFilter {
		return q, status.Errorf(status.BadRequest, "parameter filter has %d bytes. Names have at most %d",
			len(q.filter), maxFilter)
	}
	asked := q.view != "" || q.sort != "" || order != "" || values.Has("filter")
	switch {
	case asked && q.format == "json":
		return q, status.Errorf(status.BadRequest, "the listing as JSON has one order and all entries. "+
			"Leave out view, sort, order and filter, or set format to html")
	case asked:
		q.format = "html"
	case q.format == "" && prefersJSON(r):
		q.format = "json"
	}
	if q.view == "" {
		q.view = viewList
	}
	if q.sort == "" {
		q.sort = sortName
	}
	return q, nil
}

// choice returns the value of a parameter, which must be one of allowed, or "" if the query does not have it.
func choice(values url.Values, name string, allowed ...string) (string, error) {
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
func (q pageQuery) with(change func(*pageQuery)) url.Values {
	change(&q)
	values := url.Values{"view": {q.view}}
	if q.sort != sortName {
		values.Set("sort", q.sort)
	}
	if q.desc {
		values.Set("order", "desc")
	}
	if q.filter != "" {
		values.Set("filter", q.filter)
	}
	return values
}

// tag returns the query as a part of an entity tag.
func (q pageQuery) tag() string {
	return q.format + "?" + q.with(func(*pageQuery) {}).Encode()
}
