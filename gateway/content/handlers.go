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
	live     atomic.Pointer[Config]
	objects  Objects
	denylist policy.Filter
	names    Names
	served   Served
	ticket   func(TicketFor) string
	example  b3.Root
	ready    func() api.Readiness
	version  string

	fetches  fetchGate
	encoders *exchange.Encoders
	renderer *rendering.Renderer

	headers *headers.Cache
	kept    kept
	hosts   *hosts.Finder
	folders Folders
}

// kept holds what is remembered between requests.
type kept struct {
	dates       *dates.Dates
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
		objects: d.Objects, served: d.Served, denylist: d.Denylist, ready: d.Ready, version: d.Version,
		ticket: d.Ticket, example: d.Example, folders: d.Folders, hosts: d.Hosts,
	}
	g.live.Store(&cfg)
	if g.names = d.Names; g.names == nil {
		g.names = noNames{}
	}
	if g.served == nil {
		g.served = func(b3.Root) status.LookupID { return 0 }
	}
	g.fetches = newFetchGate(cfg, d.Limits)
	g.renderer = rendering.New(d.Limits, pages.OfName)
	g.encoders = exchange.NewEncoders(d.Limits, d.Cores)
	var err error
	if g.headers, err = headers.New(d.Limits); err != nil {
		return nil, err
	}
	if g.kept.directories, err = directories.New(d.Limits, cfg.DirectoryBytes); err != nil {
		return nil, err
	}
	if g.kept.dates, err = dates.New(d.Limits); err != nil {
		return nil, err
	}
	if g.kept.rules, err = site.NewCache(d.Limits); err != nil {
		return nil, err
	}
	env.MustRegister(d.Metrics, g.fetches.expired)
	return g, nil
}
