package site

import (
	"strings"

	"allium/protocols/b3"
)

// Gateway says where browsers find a gateway.
type Gateway struct {
	URL string // without a slash at its end; empty: there is none
	// Origins are URLs of the gateway below whose hosts each root and each name has a host of its own.
	Origins []string
	// Domains are the URLs of websites with domains of their own, by the address or the name that they serve.
	Domains map[string][]string
}

// RootLinks returns the URLs at which browsers find an object, that of its path first: a directory also at a host of
// its own, as a website. The URLs of its domains come last.
func (g Gateway) RootLinks(root b3.Root, directory bool) []string {
	path := "/b3/" + root.String()
	if !directory {
		g.Origins = nil
		return g.links(OfRoot(root), path)
	}
	return g.links(OfRoot(root), path+"/")
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
