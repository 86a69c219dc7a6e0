package localapi

import (
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/api"
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
	asking.source = a.deps.source(from)
	return &asking, nil
}

// parsePeers parses peer IDs and multiaddrs with /p2p/ID. Addresses of one peer come together.
func parsePeers(texts []string) (all []peer.AddrInfo, err error) {
	if len(texts) > api.MaxAsked {
		return nil, status.Errorf(status.BadRequest, "%d peers and addresses are more than %d", len(texts), api.MaxAsked)
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
