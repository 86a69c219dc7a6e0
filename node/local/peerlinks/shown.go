package peerlinks

import (
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/policy"
	"allium/gateway/weblink"
	"allium/internal/env"
	"allium/internal/ipgroup"
	"allium/protocols/b3"
	"allium/protocols/links"
	"allium/protocols/record"
)

// Deps are the parts of a node that show links of peers. All are required.
type Deps struct {
	env.Env

	Host     host.Host
	Starting func() error // returns not_ready until the gateway has started
	Filter   policy.Filter
	Links    func() *weblink.Set // of the gateway
}

// New returns a server of at most most links of peers.
func New(most int, d Deps) (*links.Server, error) {
	return links.NewServer(links.ServerDeps{Env: d.Env, Opener: opener{d}, Group: d.groupOf, Most: most})
}

// Providers returns the peers with links of a server to an object, and behind them those that others told of. The
// server is nil where no links are shown.
func Providers(s *links.Server, others func(b3.Root) []record.Provider) func(b3.Root) []record.Provider {
	if s == nil {
		return others
	}
	return func(root b3.Root) []record.Provider { return append(s.Providers(root), others(root)...) }
}

// groupOf returns the IP group of a connected peer.
func (d Deps) groupOf(p peer.ID) ipgroup.Group {
	for _, c := range d.Host.Network().ConnsToPeer(p) {
		return ipgroup.Of(c.RemoteMultiaddr())
	}
	return ""
}

// opener makes links once the node has started: sessions start before the gateway.
type opener struct{ deps Deps }

// Open implements links.Opener.
func (x opener) Open(o links.Offer) (links.Link, error) {
	if err := x.deps.Starting(); err != nil {
		return nil, err
	}
	if err := x.deps.Filter.Object(o.Root); err != nil {
		return nil, err
	}
	h, err := x.deps.Links().Hold(weblink.Options{
		Root: o.Root, File: o.File, Name: o.Name, Size: o.Size, NotAfter: o.NotAfter, Downloads: o.Downloads,
	})
	if err != nil {
		return nil, err
	}
	return shown{h}, nil
}

// shown is a link of a peer, who does not learn from where it is opened.
type shown struct{ *weblink.Held }

// Take implements links.Link.
func (l shown) Take() (all []links.Event, ended bool) {
	happened, ended := l.Held.Take()
	for _, e := range happened {
		all = append(all, links.Event{Whole: e.Whole, Count: e.Count})
	}
	return all, ended
}
