package node

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/network"

	"allium/gateway"
	"allium/gateway/weblink"
	"allium/node/edge"
	homedir "allium/node/home"
	"allium/node/local"
	"allium/node/local/opener"
	"allium/node/local/peerlinks"
	"allium/node/p2p"
	"allium/node/p2p/reach"
	"allium/node/reload"
	"allium/node/supervise"
	"allium/protocols/dht"
	"allium/protocols/index"
	"allium/protocols/name"
	"allium/protocols/object"
	"allium/protocols/session"
	"allium/protocols/ticket"
	"allium/resolver"
	"allium/resolver/names"
	"allium/resolver/names/dnslink"
	"allium/resolver/names/own"
	"allium/resolver/names/zones"
)

// start runs the stages in order and returns the error of the first that fails. A
// stage returns when its service is ready.
func (n *Node) start(ctx context.Context) error {
	for _, stage := range []func(context.Context) error{
		n.startLock, n.startEvents, n.startDenylist, n.startAccess, n.startAudit, n.startStores, n.startAmnesia,
		func(ctx context.Context) error { return startTracer(ctx, n) },
		n.startHost, n.startReach, n.startSessions, n.startObjects, n.startDHT,
		n.startClock, n.startGossip,
		n.startMembers, n.startLAN,
		n.startZones, func(ctx context.Context) error { return startTrace(ctx, n) },
		n.startResolver, n.startOwnNames, n.startRepairs, n.startCopies, n.startPressure,
		n.startCapabilities, n.startGateway, n.startReadiness,
		func(ctx context.Context) error { return startReloads(ctx, n) },
	} {
		if err := stage(ctx); err != nil {
			return err
		}
		if err := n.services.Err(); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) startHost(ctx context.Context) error {
	psk, err := homedir.SwarmKey(homedir.Path(n.home, n.cfg.Node.SwarmKey))
	if err != nil {
		return err
	}
	n.network = ticket.NetworkOf(psk)
	if psk != nil {
		n.log.Info("this node is in a private network: it talks with nodes that have the same key",
			"network", n.network)
	}
	deps := p2p.Deps{
		Env: n.env(), Key: n.key, PSK: psk, Version: ThisVersion().Version,
		Gater: n.access.Gater(),
	}
	if n.faults != nil {
		deps.Faults = n.faults.Links()
	}
	builder, err := p2p.New(n.cfg.Listen, deps)
	if err != nil {
		return err
	}
	run := func(ctx context.Context, ready func()) error {
		if n.faults != nil {
			defer n.faults.Close()
		}
		h, err := builder.Build(ctx)
		if err != nil {
			return err
		}
		n.host, n.reach = h, builder.Reach()
		h.Network().Notify(n.events.Connections())
		n.access.Attach(h.Network())
		defer builder.Wait() // after the host is closed
		ready()
		<-ctx.Done()
		return h.Close()
	}
	return n.services.Start(ctx, supervise.Service{
		Name: "host", Owner: "node/p2p", Doc: "listens, dials and keeps the connections with peers",
		Run: run, Fatal: true,
	})
}

func (n *Node) startSessions(ctx context.Context) (err error) {
	n.sessions, err = session.New(n.cfg.Session, session.Deps{
		Env: n.env(), Host: n.host, UserAgent: "allium/" + ThisVersion().Version, Region: n.cfg.Node.Region,
		Transports:   func() []string { return p2p.Transports(n.host) },
		Capabilities: n.capabilities, Features: features(&n.cfg),
		Inbound: n.inbound, Codec: n.process.codec,
	})
	if err != nil {
		return err
	}
	if err := n.handleIndex(); err != nil {
		return err
	}
	if err := handleLinks(n); err != nil {
		return err
	}
	n.handleRepair()
	return n.services.Start(ctx, supervise.Service{
		Name: "sessions", Doc: "carries requests and answers of peers", Run: n.sessions.Run, Fatal: true,
	})
}

func (n *Node) startObjects(ctx context.Context) (err error) {
	if n.example, err = opener.NewExample(ctx); err != nil {
		return err
	}
	acceptor := object.Acceptor(n.host)
	if n.faults != nil {
		acceptor = n.faults.Acceptor(acceptor)
	}
	n.server, err = object.NewServer(n.cfg.Object, object.ServerDeps{
		Env:  n.env(),
		Host: acceptor, Store: peerStore{n.store, n.denylist.At("peers"), n.example, n},
		MaxFrame: n.sessions.MaxFrame,
		Sent:     n.noteSent, Receiver: n.receiver(), Hash: n.process.hash,
		Inbound: n.inbound, Codec: n.process.codec,
		Upload: n.rates.upload,
	})
	if err != nil {
		return err
	}
	n.objects, err = object.NewClient(n.cfg.Object, object.ClientDeps{
		Env: n.env(), Host: n.reach.Bulk(), MaxFrame: n.sessions.MaxFrame, Hash: n.process.hash,
		Inbound: n.inbound, Codec: n.process.codec,
		Download: n.rates.download, Upload: n.rates.upload, Near: n.isNear,
	})
	if err != nil {
		return err
	}
	run := func(ctx context.Context, ready func()) error {
		err := n.server.Run(ctx, ready)
		return errors.Join(err, n.objects.Close())
	}
	return n.services.Start(ctx, supervise.Service{
		Name: "objects", Owner: "protocols/object", Doc: "serves objects to peers and fetches them",
		Run: run, Fatal: true,
	})
}

// startReach starts to decide at which addresses the node is announced. It is a stage before all that connect.
func (n *Node) startReach(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "reach", Doc: "finds out at which addresses this node can be reached", Run: n.reach.Run,
	})
}

func (n *Node) startDHT(ctx context.Context) (err error) {
	deps := dht.Deps{
		Env: n.env(), Cores: n.process.cores.Cores(), Host: n.host, Key: n.key,
		Roots: n.publisher.Roots(context.WithoutCancel(ctx)), Has: n.publisher.Has,
		Filter: n.denylist.At("dht"), IgnorePeer: n.access.Denied,
		PrivateNetwork:    n.network != (ticket.Network{}),
		DuplicateIdentity: n.duplicates.noteRecord, SeedManifest: n.seedManifest(),
		ExplainDial: reach.DialError,
		ClockWrong:  n.clock.Wrong, MayExpire: n.clock.MayExpire,
	}
	if n.records != nil {
		deps.Datastore, deps.Replacements = n.records, n.records.Renewed
	}
	if n.faults != nil {
		deps.Host = n.faults.NameLiar(n.host)
	}
	if n.dht, err = dht.New(n.cfg.DHT, deps); err != nil {
		return err
	}
	err = n.services.Start(ctx, supervise.Service{
		Name: "publisher", Doc: "announces what is added and pinned", Run: n.publisher.Run,
	})
	if err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{
		Name: "dht", Doc: "finds and publishes providers and names", Run: n.dht.Run,
	})
}

func (n *Node) startResolver(ctx context.Context) (err error) {
	n.resolver, err = resolver.New(n.cfg.Resolver, resolver.Deps{
		Env:   n.env(),
		Trace: n.trace, Local: fetchStore{n.store, n.example, n}, Providers: dhtFinder{n.dht}, Names: dhtFinder{n.dht},
		Index: index.NewClient(n.sessions, n.dht),
		Hints: peerlinks.Providers(n.links, n.hints.Hints), Objects: n.objects,
		Dialer: addressBook{n.host}, Self: n.host.ID(), Filter: n.denylist.At("resolver"),
		Has: n.hasObject, About: n.aboutPeer, Joining: n.joining(), Connected: n.connected,
		Serving: n.servingPeers,
		Region:  n.cfg.Node.Region,
		Observe: n.events.Transfer,
	})
	if err != nil {
		return err
	}
	n.host.Network().Notify(&network.NotifyBundle{
		ConnectedF: func(_ network.Network, c network.Conn) { n.resolver.Reached(c.RemotePeer()) },
	})
	return n.services.Start(ctx, supervise.Service{
		Name: "resolver", Doc: "finds providers and fetches objects from them", Run: n.resolver.Run,
	})
}

func (n *Node) startZones(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{Name: "zones", Doc: "watches the maps of zones", Run: n.zones.Run})
}

// startOwnNames is a stage after the DHT and the resolver, which get each record that is signed.
func (n *Node) startOwnNames(ctx context.Context) error {
	z, err := zones.Open(n.home, n.cfg.Names, n.cfg.Node.Amnesia)
	if err != nil {
		return err
	}
	n.names, err = own.New(own.Config{Home: n.home, Amnesia: n.cfg.Node.Amnesia}, own.Deps{
		Env: n.env(), Keys: z, Send: n.sendOwnName,
		Find: func(ctx context.Context, what name.Name, fresh bool) (name.Versions, error) {
			return n.dht.FindName(ctx, what, fresh, nil)
		},
		Held: n.dht.HeldNames, Floor: n.dht.NameFloor,
		Published: n.tellOwnName, ClockWrong: n.clock.Wrong,
	})
	if err != nil {
		return err
	}
	return n.services.Start(ctx, supervise.Service{
		Name: "own_names", Doc: "signs and sends the records of own names", Run: n.names.Run,
	})
}

// sendOwnName sends a record that this node signed to the peers closest to its name.
func (n *Node) sendOwnName(ctx context.Context, rec name.Signed) (int, error) {
	if err := n.mayNotSend(rec); err != nil {
		return 0, err
	}
	return n.dht.PublishName(ctx, rec)
}

// mayNotSend returns denied for a record of a denied name, unless the record withdraws the name.
func (n *Node) mayNotSend(rec name.Signed) error {
	if rec.Value.Kind() == name.Withdrawn {
		return nil
	}
	return n.filter("publish").Name(rec.Name)
}

// tellOwnName tells the resolver of a record that this node signed, and everybody by gossip. What
// gossip loses, others find when the TTL of what they remember ends.
func (n *Node) tellOwnName(ctx context.Context, rec name.Signed) {
	if n.resolver.ObserveName(rec, false) {
		n.events.Name(rec)
	}
	if n.mayNotSend(rec) != nil {
		return
	}
	if err := n.updates.Announce(ctx, rec); err != nil {
		n.log.Warn("a record of an own name is not sent by gossip", "name", rec.Name, "err", err)
	}
}

func (n *Node) startPressure(ctx context.Context) error {
	return n.services.Start(ctx, supervise.Service{
		Name: "pressure", Doc: "watches the queues, and shuts gates before they are full", Run: n.pressure.Run,
	})
}

func (n *Node) startGateway(ctx context.Context) (err error) {
	objects := &opener.Found{
		Local: opener.Local{Store: n.store}, Resolver: n.resolver, Trace: n.trace, Hash: n.process.hash,
		Filter: n.denylist.At("objects"), Seed: n.cfg.Node.Profile == p2p.Seed,
		Example: n.example,
	}
	version := ThisVersion()
	version.Amnesia = n.amnesia.Mode(n.store.MlockError())
	var dns names.DNS
	ofHosts := dnslink.New(nil, n.limits)
	if n.cfg.Names.DNS {
		dns = ofHosts
	}
	keys := names.New(n.zones, n.resolver, dns, n.trace, n.now)
	deps := edgeDeps(n, objects, keys)
	if err := startPacks(ctx, n, deps); err != nil {
		return err
	}
	cfg := apiConfig(n.home, n.cfg)
	cfg.MovesFiles = n.embedded && !cfg.InRAM
	cfg.RestoresFiles = cfg.RestoresFiles && !n.embedded
	n.api = local.NewNode(cfg, local.Deps{
		Store: n.store, Objects: objects, Resolver: n.resolver, Repairs: n.repairs,
		Copies: n.keptCopies(), Names: n.names,
		Keys: keys, Announce: n.publisher, Events: n.events,
		Host: n.host, Reach: n.reach, Sessions: n.sessions, DHT: n.dht, Trace: n.trace, Have: n.objects.Have,
		Filter:  n.filter,
		Control: control{n}, Network: n.network, Limits: n.limits,
	}, n.packs, healthOf(n), func() *weblink.Set { return n.gateway.Links() })
	if err := startFills(ctx, n, deps); err != nil {
		return err
	}
	n.gateway, err = gateway.New(n.cfg.Gateway, n.cfg.Admin, gateway.Deps{
		Env: n.env(), Objects: objects,
		Index: local.Index{Resolver: n.resolver, Keys: keys, Filter: n.filter("resolve")},
		Names: local.Names{Keys: keys, DNS: ofHosts}, Served: objects.RecordServed, Node: n.api,
		Uploads: n.api.Uploads(n.pressure.Refusal), Ready: n.board.Report,
		Ticket: local.PageTickets(n.host, n.network), Example: n.example.Root,
		Audit: n.gatewayAudit(), Denylist: n.denylist.At("gateway"), Capabilities: n.capabilities,
		Version: version, Socket: n.socket, Certs: certificateNeeds(n),
		Gatherer: n.registry, Edge: gateway.Edge{Fills: n.fills.Service, Packs: n.packs.Set},
		Events: n.events.Source(), FollowName: n.api.FollowName,
		Rates: gateway.Rates{Upload: n.rates.upload, Download: n.rates.download},
	})
	if err != nil {
		return err
	}
	n.reloadCertificate()
	if err := n.services.Start(ctx, supervise.Service{
		Name: "gateway", Doc: "serves HTTP: public listener, admin listener and socket", Run: n.gateway.Run,
	}); err != nil {
		return err
	}
	return startLinks(ctx, n)
}

// edgeDeps returns the parts of the node that its edge uses.
func edgeDeps(n *Node, objects *opener.Found, keys *names.Resolver) edge.Deps {
	deps := edge.Deps{
		Env: n.env(), Home: n.home, Store: n.store, Seed: n.cfg.Node.Profile == p2p.Seed, Objects: objects, Keys: keys,
		Announce: n.publisher.Announce, Audit: n.gatewayAudit(), Download: n.rates.download,
		UserAgent: "allium/" + ThisVersion().Version,
	}
	if n.records != nil {
		deps.Records = n.records
	}
	return deps
}

// startPacks starts to mount the packs of map tiles, which the gateway serves.
func startPacks(ctx context.Context, n *Node, deps edge.Deps) (err error) {
	if n.packs, err = edge.NewPacks(n.cfg.Edge.Pack, deps, n.filter("packs")); err != nil {
		return err
	}
	n.reloads.Add(reload.File{Name: "packs", Reload: n.packs.Reload})
	return n.services.Start(ctx, supervise.Service{
		Name: "packs", Doc: "mounts packs of map tiles and watches their files", Run: n.packs.Run,
	})
}

// startFills starts live fill before the gateway, so that the fills of its last requests can end.
func startFills(ctx context.Context, n *Node, deps edge.Deps) (err error) {
	if n.fills, err = edge.NewFills(n.cfg.Edge.Fill, deps); err != nil {
		return err
	}
	n.reloads.Add(reload.File{Name: "sources", Reload: n.fills.Reload})
	return n.services.Start(ctx, supervise.Service{
		Name: "fills", Doc: "fetches assets from origins", Run: n.fills.Run,
	})
}

// startLock locks the home directory, before any other stage writes to it. With
// amnesia nothing is written, so there is no lock.
func (n *Node) startLock(ctx context.Context) error {
	if n.cfg.Node.Amnesia {
		return nil
	}
	unlock, err := homedir.LockSoon(ctx, n.home)
	if err == nil {
		n.unlock = unlock
	}
	return err
}

// startAmnesia is a stage after the store, because it checks that the store's
// memory is locked.
func (n *Node) startAmnesia(ctx context.Context) error {
	if err := n.amnesia.Settle(n.store.MlockError()); err != nil {
		return err
	}
	service := supervise.Service{
		Name: "amnesia", Doc: "looks once a minute whether a file is open for writing", When: "node.amnesia",
		Run: n.amnesia.Run,
	}
	if !n.amnesia.Needed() {
		n.services.Declare(service)
		return nil
	}
	return n.services.Start(ctx, service)
}
