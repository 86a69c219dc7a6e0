package peerlinks

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/gateway/api"
	"allium/gateway/weblink"
	"allium/protocols/links"
	"allium/protocols/status"
)

// protectTag protects the connection with a peer that shows a link from being trimmed.
const protectTag = "peer-link"

// Follow opens a link on the gateway of the first of peers that shows it, and calls each with its items until ctx ends,
// the link does, or each fails. The host is connected to one of peers at least. Errors are those of
// [links.Client.Open], of the last peer, of [links.Client.Follow] and of each.
func Follow(
	ctx context.Context, h host.Host, c *links.Client, peers []peer.ID, o weblink.Options,
	each func(api.WebShared) error,
) error {
	offer := offerOf(o)
	kind := api.Directory
	if o.File {
		kind = api.File
	}
	held, err := open(ctx, c, peers, offer)
	if err != nil {
		return err
	}
	h.ConnManager().Protect(held.Peer, protectTag) // the gateway fetches over this connection
	defer h.ConnManager().Unprotect(held.Peer, protectTag)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := each(api.WebShared{
		Links: []api.WebLink{{URL: held.URL, Reach: weblink.ReachOf(held.URL)}}, Root: o.Root, Kind: kind,
		NotAfter: offer.NotAfter,
	})
	if failed != nil {
		cancel() // so that the link ends at once
	}
	err = c.Follow(ctx, held, func(e links.Event) error {
		return each(api.WebShared{Download: &api.WebDownload{Whole: e.Whole, Count: e.Count}})
	})
	if failed != nil {
		return failed
	}
	return err
}

// offerOf returns what a gateway is offered. Its end is in whole seconds, and no earlier than the one asked for.
func offerOf(o weblink.Options) links.Offer {
	offer := links.Offer{Root: o.Root, File: o.File, Name: o.Name, Size: o.Size, Downloads: o.Downloads}
	if !o.NotAfter.IsZero() {
		offer.NotAfter = o.NotAfter.Add(time.Second - 1).Truncate(time.Second)
	}
	return offer
}

// open opens a link on the gateway of the first of peers whose answer others than this machine can open.
func open(ctx context.Context, c *links.Client, peers []peer.ID, o links.Offer) (held links.Held, err error) {
	err = status.Errorf(status.NotFound, "there is no peer whose gateway could show the link")
	for _, p := range peers {
		if held, err = c.Open(ctx, p, o); err != nil {
			continue
		}
		if reach := weblink.ReachOf(held.URL); reach != "" && reach != api.ReachMachine {
			return held, nil
		}
		c.End(ctx, held)
		err = status.Errorf(status.Upstream, "%s shows the link at %s, which nobody else can open", p, held.URL)
	}
	return held, err
}

// Relays returns the relays through which a host can be dialled. Without one the error is not_found.
func Relays(h host.Host) (all []peer.ID, err error) {
	seen := map[peer.ID]bool{}
	for _, a := range h.Addrs() {
		relay, last := ma.SplitLast(a)
		if last == nil || last.Code() != ma.P_CIRCUIT {
			continue
		}
		if info, err := peer.AddrInfoFromP2pAddr(relay); err == nil && !seen[info.ID] {
			seen[info.ID], all = true, append(all, info.ID)
		}
	}
	if len(all) == 0 {
		err = status.Errorf(status.NotFound,
			"this node uses no relay. Name a peer with a public gateway, or see `allium doctor reach`")
	}
	return all, err
}
