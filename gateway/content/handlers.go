package content

import (
	"sync/atomic"

	"allium/gateway/api"
	"allium/gateway/content/dates"
	"allium/gateway/content/directories"
	"allium/gateway/content/headers"
	"allium/gateway/content/pages"
	"allium/gateway/content/rendering"
	"allium/gateway/exchange"
	"allium/gateway/hosts"
	"allium/gateway/policy"
	"allium/gateway/site"
	"allium/internal/env"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// Deps are the parts of the node that content uses. Names, Served, Ticket, Metrics and Limits may be nil.
type Deps struct {
	env.Env

	Objects  Objects
	Denylist policy.Filter
	Names    Names         // nil: names are refused with unsupported
	Served   Served        // nil: nothing is recorded
	Folders  Folders       // nil: a directory is not sent in one answer
	Hosts    *hosts.Finder // the one of the listener; nil: the default
	// Ticket returns a ticket with which others can get an object of this node, or "" if they cannot reach it. It is
	// shown to every visitor, so it has public addresses only. It is cheap and never waits.
	Ticket  func(TicketFor) string
	Example b3.Root              // a directory that the first page offers; zero: none
	Ready   func() api.Readiness // cheap, never waits
	Version string               // the program's version, shown on the first page
}

// Handlers serve objects, directories and the first page. Their methods may be called from
// any goroutine.
type Handlers struct {
	source
	sharing
	landing landing
	names   naming
	served  Served
	folders Folders
	hosts   *hosts.Finder

	encoders    *exchange.Encoders
	renderer    *rendering.Renderer
	headers     *headers.Cache
	directories *directories.Cache
	rules       *site.Cache
}

// Reconfigure applies the hot fields of a valid configuration at once. Requests that have begun keep theirs.
func (g *Handlers) Reconfigure(cfg Config) {
	g.live.Store(&cfg)
	g.fetches.gate.Resize(cfg.Fetches)
	g.fetches.perIP.Resize(cfg.FetchesPerIP)
}

// New returns the handlers. cfg must be valid.
func New(cfg Config, d Deps) (*Handlers, error) {
	g := &Handlers{
		source: source{
			objects: d.Objects, denylist: d.Denylist, fetches: newFetchGate(cfg, d.Limits),
			live: &atomic.Pointer[Config]{},
		},
		sharing: sharing{ticket: d.Ticket, example: d.Example},
		landing: landing{ready: d.Ready, example: d.Example, version: d.Version},
		served:  d.Served, folders: d.Folders, hosts: d.Hosts,
		encoders: exchange.NewEncoders(d.Limits, d.Cores), renderer: rendering.New(d.Limits, pages.OfName),
	}
	g.live.Store(&cfg)
	g.names = naming{Names: d.Names, s: &g.source}
	if d.Names == nil {
		g.names.Names = noNames{}
	}
	if g.served == nil {
		g.served = func(b3.Root) status.LookupID { return 0 }
	}
	var err error
	if g.headers, err = headers.New(d.Limits); err != nil {
		return nil, err
	}
	if g.directories, err = directories.New(d.Limits, cfg.DirectoryBytes); err != nil {
		return nil, err
	}
	if g.names.dates, err = dates.New(d.Limits); err != nil {
		return nil, err
	}
	if g.rules, err = site.NewCache(d.Limits); err != nil {
		return nil, err
	}
	env.MustRegister(d.Metrics, g.fetches.expired)
	return g, nil
}
