package site

import (
	"net/url"
	"path"
	"strings"

	"allium/protocols/b3"
	"allium/protocols/manifest"
)

// Gateway says where browsers find a gateway.
type Gateway struct {
	URL string // without a slash at its end; empty: there is none
	// Origins are URLs of the gateway below whose hosts each root and each name has its own subdomain.
	Origins []string
	// Domains are the URLs of websites with domains of their own, by the address or the name that they serve.
	Domains map[string][]string
}

// RootLinks returns the URLs at which browsers find an object that was at a path, which may be empty. The URL of its
// address comes first. It carries the last element of the path, for the title of a page and the name of a saved file,
// unless that is not a valid name of an entry (protocols/manifest). A directory also has its own host, as a website.
// The URLs of its domains come last.
func (g Gateway) RootLinks(root b3.Root, at string, directory bool) []string {
	name := path.Base(at)
	named := manifest.NameProblem(name) == ""
	if directory {
		page := "/b3/" + root.String() + "/"
		if named {
			page += "?" + url.Values{"name": {name}}.Encode()
		}
		return g.links(OfRoot(root), page)
	}
	g.Origins = nil
	if named {
		return g.links(OfRoot(root), "/o/"+root.String()+"/"+url.PathEscape(name))
	}
	return g.links(OfRoot(root), "/b3/"+root.String())
}

// NameLinks returns the URLs at which browsers find what a name stands for, that of its path first. A host that has
// only the hash of the name is left out: it works after a redirect alone.
func (g Gateway) NameLinks(name string) []string { return g.links(OfName(name), "/n/"+name) }

func (g Gateway) links(k Key, path string) []string {
	if g.URL == "" {
		return nil
	}
	all := []string{g.URL + path}
	for _, origin := range g.Origins {
		scheme, host, ok := strings.Cut(origin, "://")
		if !ok {
			continue
		}
		if own, remembered := HostOf(k, host); !remembered {
			all = append(all, scheme+"://"+own+"/")
		}
	}
	return append(all, g.Domains[k.String()]...)
}
