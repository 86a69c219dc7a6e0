package exchange

import (
	"bytes"
	"net/http"
	"strings"

	"allium/gateway/api"
)

// Pages says whether errors are pages, and of what host.
type Pages uint8

// The kinds of pages that errors are.
const (
	NoPages   Pages = iota
	OwnPages        // of a host of the gateway
	SitePages       // of the host of a website, where nothing of the gateway is found
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

// problemPage renders a problem as a page, with a link to the directory above.
func (w *Response) problemPage(r *http.Request, p api.Problem) ([]byte, error) {
	var out bytes.Buffer
	err := PageTemplates().ExecuteTemplate(&out, "problem", struct {
		Frame
		api.Problem
		Above, Request string
	}{w.Frame(), p, above(r.URL.EscapedPath()), strings.TrimPrefix(p.Instance, "urn:allium:request:")})
	return out.Bytes(), err
}

// above returns a relative link from a path below an address or a name to the directory above, and "" for other paths.
func above(path string) string {
	steps := strings.Split(strings.TrimSuffix(path, "/"), "/") // "", "b3", the address, and the names below it
	if len(steps) < 4 || steps[1] != "b3" && steps[1] != "n" {
		return ""
	}
	if strings.HasSuffix(path, "/") {
		return "../"
	}
	return "./"
}
