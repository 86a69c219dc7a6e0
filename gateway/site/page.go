package site

import "net/http"

// Page says how a site serves an object.
type Page struct {
	Code    int
	Headers []Header
}

// agentCluster keeps documents of sibling hosts from relaxing document.domain.
var agentCluster = []string{"?1"}

// SetHeaders sets the headers of an answer that the site decides.
func (p *Page) SetHeaders(h http.Header) {
	h["Origin-Agent-Cluster"] = agentCluster
	if p.Code != http.StatusOK {
		h.Del("ETag")
		h.Set("Cache-Control", "no-cache")
	}
	for _, one := range p.Headers {
		h.Set(one.Name, one.Value)
	}
}
