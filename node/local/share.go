package local

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/url"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
	"allium/gateway/content"
	"allium/gateway/weblink"
	"allium/node/local/peerlinks"
	"allium/node/local/reading"
	"allium/node/p2p/reach"
	"allium/protocols/links"
	"allium/protocols/status"
	"allium/protocols/ticket"
	"allium/store"
	"allium/store/meta"
)

// reachWait is the longest time that Share waits until a peer has confirmed an address, or a relay is there.
const reachWait = 5 * time.Second

// Share implements api.Node. The object is pinned with the label meta.SharedLabel, so it is not announced.
func (a *Node) Share(ctx context.Context, key string, o api.ShareOptions) (api.Shared, error) {
	obj, err := pinShared(ctx, a, key)
	if err != nil {
		return api.Shared{}, err
	}
	if err := a.waitForReach(ctx); err != nil {
		return api.Shared{}, err
	}
	t := ticket.Ticket{
		Root: obj.Root, Directory: obj.Kind == api.Directory, Size: obj.Size, Peer: a.deps.Host.ID(),
		Name: ticket.Name(cmp.Or(o.Name, obj.Name)), Network: a.deps.Network,
	}
	if o.For > 0 {
		t.NotAfter = time.Now().Add(o.For).Truncate(time.Second).UTC()
	}
	t.Addrs, t.Relay = ticketAddrs(a.deps.Host)
	text, err := t.Encode()
	if err != nil {
		return api.Shared{}, err
	}
	return api.Shared{
		Ticket: text, Root: obj.Root, Kind: obj.Kind, Size: obj.Size, Reach: t.Reach().String(), NotAfter: t.NotAfter,
	}, nil
}

// pinShared pins an object of the store without announcing it, and returns it.
func pinShared(ctx context.Context, a *Node, key string) (obj api.Object, err error) {
	obj, c, err := a.reader.Open(ctx, key, false)
	if err != nil {
		return obj, err
	}
	if c == nil {
		return obj, reading.LinkError(key)
	}
	if err := c.Close(); err != nil {
		return obj, err
	}
	local, err := a.deps.Objects.Open(ctx, obj.Root, content.OpenOptions{LocalOnly: true})
	if err != nil {
		if status.Of(err) == status.NotFound {
			err = status.Errorf(status.NotFound,
				"this node does not have %s; fetch it first: `allium get --store-only`", obj.Root)
		}
		return obj, err
	}
	if err := local.Close(); err != nil {
		return obj, err
	}
	return obj, a.pin(ctx, obj.Root, store.PinOptions{Recursive: true, Label: meta.SharedLabel}, nil)
}

// webSharer opens links that browsers open.
type webSharer struct {
	of    *Node
	links func() *weblink.Set
}

// ShareWeb implements api.Node.
func (s webSharer) ShareWeb(ctx context.Context, key string, o api.WebOptions) iter.Seq2[api.WebShared, error] {
	return func(yield func(api.WebShared, error) bool) {
		err := s.share(ctx, key, o, func(item api.WebShared) error {
			if !yield(item, nil) {
				return errStopped
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStopped) {
			yield(api.WebShared{}, err)
		}
	}
}

// errStopped ends a link whose caller wants no more items.
var errStopped = errors.New("local: stopped")

// share opens a link and calls each with its items.
func (s webSharer) share(ctx context.Context, key string, o api.WebOptions, each func(api.WebShared) error) error {
	obj, err := pinShared(ctx, s.of, key)
	if err != nil {
		return err
	}
	lo := weblink.Options{Root: obj.Root, File: obj.Kind == api.File, Size: obj.Size, Downloads: o.Downloads,
		Name: cmp.Or(o.Name, obj.Name)}
	if o.For > 0 {
		lo.NotAfter = time.Now().Add(o.For).UTC()
	}
	if o.On != "" {
		peers, err := s.gateways(ctx, o.On)
		if err != nil {
			return err
		}
		return peerlinks.Follow(ctx, s.of.deps.Host, links.NewClient(s.of.deps.Sessions), peers, lo, each)
	}
	ready := func(at []weblink.Place) error {
		return each(api.WebShared{Links: s.confirmed(ctx, at), Root: obj.Root, Kind: obj.Kind,
			NotAfter: lo.NotAfter.Truncate(time.Second)})
	}
	return s.links().Serve(ctx, lo, cmp.Or(o.Listen, weblink.AnyAddress), ready, func(e weblink.Event) error {
		return each(api.WebShared{Download: &api.WebDownload{From: e.From, Whole: e.Whole, Count: e.Count}})
	})
}

// gateways returns the peers whose gateway may show a link: the relays of this node, or the one that on names, to
// which this node is connected then.
func (s webSharer) gateways(ctx context.Context, on string) ([]peer.ID, error) {
	if on != api.OnRelay {
		p, err := reachPeer(ctx, s.of.deps.Host, on)
		return []peer.ID{p}, err
	}
	if err := s.of.waitForReach(ctx); err != nil {
		return nil, err
	}
	return peerlinks.Relays(s.of.deps.Host)
}

// confirmed returns the places of a link. An address of this machine that peers have dialled is open to anyone, as far
// as the firewall treats the port alike.
func (s webSharer) confirmed(ctx context.Context, at []weblink.Place) (all []api.WebLink) {
	reach, err := s.of.Reach(ctx)
	dialled := func(host string) bool {
		return err == nil && slices.ContainsFunc(reach.Addrs, func(a api.ReachAddr) bool {
			m, err := ma.NewMultiaddr(a.Addr)
			if err != nil || a.State != api.ReachConfirmed || isRelayed(m) {
				return false
			}
			_, ip := ticket.ReachOf(m)
			return ip.IsValid() && ip.String() == host
		})
	}
	for _, p := range at {
		u, err := url.Parse(p.URL)
		if err == nil && p.Reach == api.ReachUnconfirmed && dialled(u.Hostname()) {
			p.Reach = api.ReachAnyone
		}
		all = append(all, api.WebLink{URL: p.URL, Reach: p.Reach})
	}
	return all
}

// PageTickets returns what makes the tickets of a gateway's pages. Every visitor sees them, so they have no address
// of a local network and no loopback one: those would tell how the network behind the gateway looks, and dialled from
// elsewhere they lead nowhere. Without a public address, and without a relay that has one, there is no ticket. They
// name no end, because a gateway does not promise to keep what it shows.
func PageTickets(h host.Host, network ticket.Network) func(content.TicketFor) string {
	isPrivate := func(a ma.Multiaddr) bool {
		r, _ := ticket.ReachOf(a)
		return r != ticket.Anywhere
	}
	return func(o content.TicketFor) string {
		t := ticket.Ticket{Root: o.Root, Directory: o.Directory, Size: o.Size, Peer: h.ID(),
			Name: ticket.Name(o.Name), Network: network}
		t.Addrs, t.Relay = ticketAddrs(h)
		t.Addrs = slices.DeleteFunc(t.Addrs, isPrivate)
		if t.Relay != nil && isPrivate(t.Relay) {
			t.Relay = nil
		}
		if len(t.Addrs) == 0 && t.Relay == nil {
			return ""
		}
		text, err := t.Encode()
		if err != nil { // a size that no ticket can say, or too many bytes of addresses
			return ""
		}
		return text
	}
}

// confirmer is a host that knows which of its addresses a peer has dialled.
type confirmer interface {
	ConfirmedAddrs() (reachable, unreachable, unknown []ma.Multiaddr)
}

// waitForReach waits until an address is confirmed or a relay is there, at most reachWait. It does not
// wait if no peer is known that could confirm one, or if the node listens on loopback alone.
func (a *Node) waitForReach(ctx context.Context) error {
	h := a.deps.Host
	if len(h.Network().Peers()) == 0 && a.deps.DHT.TableSize() == 0 || onlyLoopback(reach.Addrs(h)) {
		return nil
	}
	changes, err := h.EventBus().Subscribe([]any{
		new(event.EvtHostReachableAddrsChanged), new(event.EvtLocalAddressesUpdated),
	})
	if err != nil {
		return status.Errorf(status.Internal, "watch the addresses of the host: %w", err)
	}
	defer changes.Close()
	late := time.NewTimer(reachWait)
	defer late.Stop()
	for !isReached(h) {
		select {
		case <-changes.Out():
		case <-late.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func isReached(h host.Host) bool {
	if c, ok := h.(confirmer); ok {
		if reachable, _, _ := c.ConfirmedAddrs(); len(reachable) > 0 {
			return true
		}
	}
	return slices.ContainsFunc(h.Addrs(), isRelayed)
}

func isRelayed(a ma.Multiaddr) bool {
	return len(a) > 0 && a[len(a)-1].Code() == ma.P_CIRCUIT
}

func onlyLoopback(addrs []ma.Multiaddr) bool {
	return !slices.ContainsFunc(addrs, func(a ma.Multiaddr) bool {
		r, _ := ticket.ReachOf(a)
		return r > ticket.Machine
	})
}

// at is an IP address of the host, with the addresses on it.
type at struct {
	reach     ticket.Reach
	confirmed bool
	v4        bool
	addrs     []ma.Multiaddr // TCP and QUIC, at most one each
}

// ticketAddrs chooses the addresses of a ticket: those of the best IP address, and of the best one with
// another reach, or else the second best. Loopback is there only if there is nothing else.
func ticketAddrs(h host.Host) (chosen []ma.Multiaddr, relay ma.Multiaddr) {
	var reachable, unreachable []ma.Multiaddr
	if c, ok := h.(confirmer); ok {
		reachable, unreachable, _ = c.ConfirmedAddrs()
	}
	all := reach.Addrs(h)
	if i := slices.IndexFunc(all, func(a ma.Multiaddr) bool {
		r, _ := ticket.ReachOf(a)
		return isRelayed(a) && r > ticket.Machine
	}); i >= 0 {
		relay = all[i]
	}
	loopback := onlyLoopback(all)
	var ips []*at
	byIP := map[string]*at{}
	for _, a := range all {
		reach, ip := ticket.ReachOf(a)
		switch {
		case reach == ticket.Nowhere || reach == ticket.Machine && !loopback || !isPlain(a):
			continue
		case ip.IsLinkLocalUnicast() && ip.Is6(), slices.ContainsFunc(unreachable, a.Equal):
			continue
		}
		of := byIP[ip.String()]
		if of == nil {
			of = &at{reach: reach, v4: ip.Is4()}
			byIP[ip.String()], ips = of, append(ips, of)
		}
		same := func(b ma.Multiaddr) bool { return len(b) == len(a) }
		if len(of.addrs) < 2 && !slices.ContainsFunc(of.addrs, same) {
			of.addrs = append(of.addrs, a)
			of.confirmed = of.confirmed || slices.ContainsFunc(reachable, a.Equal)
		}
	}
	slices.SortStableFunc(ips, func(x, y *at) int {
		return cmp.Or(-compareBool(x.confirmed, y.confirmed), -cmp.Compare(x.reach, y.reach), -compareBool(x.v4, y.v4))
	})
	if len(ips) == 0 {
		return nil, relay
	}
	chosen = slices.Clone(ips[0].addrs)
	rest := ips[1:]
	if i := slices.IndexFunc(rest, func(x *at) bool { return x.reach != ips[0].reach }); i >= 0 {
		rest = rest[i:]
	}
	if len(rest) > 0 {
		chosen = append(chosen, rest[0].addrs...)
	}
	return chosen, relay
}

// isPlain reports whether a is an IP address with TCP or QUIC alone.
func isPlain(a ma.Multiaddr) bool {
	return len(a) == 2 && a[1].Code() == ma.P_TCP || len(a) == 3 && a[2].Code() == ma.P_QUIC_V1
}

func compareBool(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}
