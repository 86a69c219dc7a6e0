package exchange

import (
	"bytes"
	"net/http"
	"strings"

	"allium/gateway/api"
)

// WantsPage reports whether the client prefers a page to JSON: its Accept names text/html and
// prefers no JSON.
func WantsPage(r *http.Request) bool {
	page, problem := 0.0, 0.0
	for t, q := range Accepted(r.Header.Values("Accept")) {
		switch t {
		case "text/html":
			page = max(page, q)
		case MediaProblem, MediaJSON:
			problem = max(problem, q)
		}
	}
	return page > 0 && page >= problem
}

// problemPage renders a problem as a page.
func (w *Response) problemPage(p api.Problem) ([]byte, error) {
	var out bytes.Buffer
	err := PageTemplates().ExecuteTemplate(&out, "problem", struct {
		Frame
		api.Problem
		Request string
	}{w.Frame(), p, strings.TrimPrefix(p.Instance, "urn:allium:request:")})
	return out.Bytes(), err
}
