package gateway

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"allium/gateway/admin"
	"allium/gateway/api"
	"allium/gateway/certs"
	"allium/gateway/content"
	"allium/gateway/discovery"
	"allium/gateway/exchange"
	"allium/gateway/fill"
	"allium/gateway/folder"
	"allium/gateway/hosts"
	"allium/gateway/openapi"
	"allium/gateway/pack"
	"allium/gateway/policy"
	"allium/gateway/profiling"
	"allium/gateway/server"
	"allium/gateway/upload"
	"allium/gateway/weblink"
	"allium/internal/env"
	"allium/internal/limits"
	"allium/protocols/b3"
)

// Deps are the parts of the node that a Gateway uses. Objects, Index, Node and Ready are required.
type Deps struct {
	env.Env

	Objects content.Objects
	Index   discovery.Index // finds providers
	Names   content.Names   // finds what names stand for; nil: names are refused
	Served  content.Served  // records that bytes in RAM answered a request; nil: nothing is recorded
	// Ticket makes the tickets of pages, and Example is a directory that the first page offers
	// (content.Deps). Both may be missing.
	Ticket  func(content.TicketFor) string
	Example b3.Root

	Node         api.Node
	Ready        func() api.Readiness // cheap, never waits
	Version      api.Version
	Capabilities policy.Capabilities // nil: mutations over TCP are refused
	Uploads      upload.Store        // nil: only the local API accepts uploads
	Audit        policy.Audit        // nil: nothing is recorded
	Denylist     policy.Filter       // nil: nothing is denied
	Edge         Edge
	Socket       string // path of the Unix socket (api.SocketPath); empty: none
	Certs        certs.Node

	Gatherer prometheus.Gatherer // the metrics of /metrics; nil: none

	Rates Rates

	Events     *limits.Events[*api.Event] // closed with draining when the node stops; nil: none
	FollowName admin.FollowName           // nil: readers of events cannot name the names that they follow
}

// Edge holds the parts of the edge.
type Edge struct {
	Fills *fill.Service // fills from origins; nil: there are no sources
	Packs *pack.Set     // packs of map tiles; nil: there are none
}

// Rates bounds bytes per second. Each part may be nil for no bound.
type Rates struct {
	Upload   *limits.Bandwidth // of content sent
	Download *limits.Bandwidth // of bodies received
}

// Gateway is a server with the gateway's route table. Its methods may be called from any
// goroutine.
type Gateway struct {
	*server.Server
	content *content.Handlers
	folders *folder.Handlers
	hosts   *hosts.Finder
	links   *weblink.Set
	ready   func() api.Readiness
}

// Links returns the links that browsers open.
func (g *Gateway) Links() *weblink.Set { return g.links }

// Drain ends the links that browsers open, and stops admitting requests as the server's Drain does.
func (g *Gateway) Drain(ctx context.Context) error {
	g.links.Close()
	return g.Server.Drain(ctx)
}

// Reconfigure applies the hot fields of a valid configuration at once.
func (g *Gateway) Reconfigure(cfg Config) {
	g.Server.Reconfigure(cfg.Config)
	g.content.Reconfigure(cfg.Content)
	g.folders.Reconfigure(cfg.Folders)
	g.hosts.Reconfigure(cfg.Hosts)
}

// Origins returns the URLs of the gateway below whose host each root and each name has its own subdomain.
func (g *Gateway) Origins() []string { return g.hosts.Origins(g.Addrs().Gateway) }

// Sites returns the websites of gateway.sites, with their URLs.
func (g *Gateway) Sites() []api.Site { return g.hosts.Sites(g.Addrs().Gateway) }

// New returns a Gateway that does not listen yet.
func New(cfg Config, admin server.AdminConfig, d Deps) (*Gateway, error) {
	return newGateway(cfg, admin, d, server.DefaultParams())
}

func newGateway(cfg Config, adminCfg server.AdminConfig, d Deps, p server.Params) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := adminCfg.Validate(); err != nil {
		return nil, err
	}
	if d.Objects == nil || d.Index == nil || d.Node == nil || d.Ready == nil {
		return nil, errors.New("the gateway needs Deps.Objects, Index, Node and Ready")
	}
	d.Env.SetDefaults()
	if d.Denylist == nil {
		d.Denylist = policy.AllowAll{}
	}
	g := &Gateway{ready: d.Ready, folders: folder.New(cfg.Folders, d.Limits)}
	guard := exchange.NewGuard(d.Log, d.Metrics)
	bodies := exchange.NewBodies(cfg.Bodies, cfg.MinRate, d.Limits)
	bodies.Download, bodies.Cores = d.Rates.Download, d.Cores
	var err error
	if g.hosts, err = hosts.New(cfg.Hosts, d.Names, d.Limits); err != nil {
		return nil, err
	}
	if d.Certs.Served == nil {
		d.Certs.Served = g.hosts.Named
	}
	contents, err := content.New(cfg.Content, content.Deps{
		Env:     d.Env,
		Objects: d.Objects, Names: d.Names, Served: d.Served, Denylist: d.Denylist, Version: d.Version.Version,
		Ticket: d.Ticket, Example: d.Example, Folders: g.folders, Hosts: g.hosts,
		Ready: func() api.Readiness { page, _ := g.readiness(); return page },
	})
	if err != nil {
		return nil, err
	}
	g.content = contents
	g.links = weblink.New(weblink.Deps{
		Env: d.Env, Content: contents, Upload: d.Rates.Upload,
		Gateway: func() string { return g.Addrs().Gateway }, Listen: cfg.Listen,
	})
	h := handlers{
		content: contents, links: g.links,
		index:   discovery.New(d.Index, contents, d.Denylist),
		uploads: upload.New(d.Uploads, d.Denylist, bodies),
		admin: admin.New(admin.Deps{
			Node: d.Node, Ready: g.readiness, Version: d.Version, Denylist: d.Denylist, Bodies: bodies, Guard: guard,
			Gatherer: d.Gatherer, Limits: d.Limits, Events: d.Events, FollowName: d.FollowName,
		}),
		packs:   pack.NewHandlers(d.Edge.Packs, contents),
		openapi: &openapi.Handlers{},
		fills:   fill.NewHandlers(d.Edge.Fills, content.NewAssets(contents)),
		profile: profiling.New(d.Limits),
	}
	table := h.table()
	h.openapi.Describe(table)
	g.Server, err = server.New(cfg.Config, adminCfg, server.Deps{
		Env:   d.Env,
		Table: table, Bodies: bodies, Guard: guard, Capabilities: d.Capabilities, Audit: d.Audit, Socket: d.Socket,
		Hosts: g.hosts, Certs: d.Certs, Upload: d.Rates.Upload,
	}, p)
	return g, err
}
