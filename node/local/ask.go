package local

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
	"allium/protocols/b3"
	"allium/protocols/status"
)

// AskFirst implements api.Node.
func (a *Node) AskFirst(peers []string) (api.Node, error) {
	from, err := parsePeers(peers)
	if err != nil {
		return nil, err
	}
	asking := *a
	asking.from = from
	asking.reader = a.reader.From(a.deps.source(from))
	return &asking, nil
}

// askWait bounds AskPeer, with the dial.
const askWait = 5 * time.Second

// presenceWords maps the presence of an object at a peer to a word.
var presenceWords = map[b3.Presence]string{b3.Absent: "nothing", b3.Partial: "part", b3.Complete: "all"}

// AskPeer implements api.Node.
func (a *Node) AskPeer(ctx context.Context, who, key string) (api.PeerHas, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	ctx, root, err := a.allowed(ctx, key, "ask")
	if err != nil {
		return api.PeerHas{}, err
	}
	p, err := reachPeer(ctx, a.deps.Host, who)
	if err != nil {
		return api.PeerHas{}, err
	}
	has, err := a.deps.Have(ctx, p, []b3.Root{root})
	if err != nil {
		return api.PeerHas{}, err
	}
	return api.PeerHas{Peer: p.String(), Root: root, Has: presenceWords[has[0]]}, nil
}

// reachPeer returns the peer that a text names, to which the host is connected then. It is not the host itself.
func reachPeer(ctx context.Context, h host.Host, who string) (peer.ID, error) {
	peers, err := parsePeers([]string{who})
	if err != nil {
		return "", err
	}
	p := peers[0]
	switch {
	case p.ID == h.ID():
		err = status.Errorf(status.BadRequest, "%s is this node itself; name another peer", p.ID)
	case h.Network().Connectedness(p.ID) == network.NotConnected:
		err = dial(ctx, h, p)
	}
	return p.ID, err
}

// parsePeers parses peer IDs and multiaddrs with /p2p/ID. Addresses of one peer come together.
func parsePeers(texts []string) (all []peer.AddrInfo, err error) {
	if len(texts) > api.MaxAsked {
		return nil, status.Errorf(status.BadRequest,
			"%d peers and addresses are more than %d", len(texts), api.MaxAsked)
	}
	for _, s := range texts {
		info := peer.AddrInfo{}
		if strings.HasPrefix(s, "/") {
			var parsed *peer.AddrInfo
			if parsed, err = peer.AddrInfoFromString(s); err == nil {
				info = *parsed
			}
		} else {
			info.ID, err = peer.Decode(s)
		}
		if err != nil {
			return nil, status.Errorf(status.BadRequest,
				"%.80q is neither a peer ID nor an address of a peer: %w; write /ip4/ADDRESS/tcp/PORT/p2p/ID", s, err)
		}
		if i := slices.IndexFunc(all, func(p peer.AddrInfo) bool { return p.ID == info.ID }); i >= 0 {
			all[i].Addrs = append(all[i].Addrs, info.Addrs...)
		} else {
			all = append(all, info)
		}
	}
	return all, nil
}
