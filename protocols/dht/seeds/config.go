package seeds

import (
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"allium/protocols/status"
)

// Config names the sources of seeds. The zero value has none. The content of the manifest is read
// before every round.
// node/config/keys.txt documents the keys.
type Config struct {
	Bootstrap       []string `koanf:"bootstrap" hot:"true"`
	SeedManifest    string   `koanf:"seed_manifest"`
	SeedAuthorities []string `koanf:"seed_authorities"`
}

// Validate returns status.BadRequest with the first invalid key.
func (c Config) Validate() error {
	if _, err := c.seeds(); err != nil {
		return err
	}
	trusted, err := c.authorities()
	if err != nil {
		return err
	}
	if c.SeedManifest != "" && len(trusted) == 0 {
		return status.Errorf(status.BadRequest,
			"dht.seed_manifest is set but dht.seed_authorities is empty: name the peer ids that may sign it")
	}
	return nil
}

// seeds parses Bootstrap and joins the addresses of each seed.
func (c Config) seeds() ([]peer.AddrInfo, error) {
	if len(c.Bootstrap) > maxSeeds {
		return nil, status.Errorf(status.BadRequest,
			"dht.bootstrap has %d addresses, more than %d", len(c.Bootstrap), maxSeeds)
	}
	infos, err := ParseAddrs(c.Bootstrap)
	if err != nil {
		return nil, fmt.Errorf("dht.bootstrap: %w", err)
	}
	return infos, nil
}

// authorities parses SeedAuthorities.
func (c Config) authorities() ([]peer.ID, error) {
	if len(c.SeedAuthorities) > maxAuthority {
		return nil, status.Errorf(status.BadRequest,
			"dht.seed_authorities has %d peers, more than %d", len(c.SeedAuthorities), maxAuthority)
	}
	ids, err := ParseIDs(c.SeedAuthorities)
	if err != nil {
		return nil, fmt.Errorf("dht.seed_authorities: %w", err)
	}
	return ids, nil
}

// ParseAddrs parses multiaddrs that end in /p2p/ID. It joins those of one peer, and returns
// the peers in the order of their first address. An invalid address is status.BadRequest.
func ParseAddrs(addrs []string) ([]peer.AddrInfo, error) {
	var infos []peer.AddrInfo
	at := map[peer.ID]int{}
	for _, s := range addrs {
		info, err := peer.AddrInfoFromString(s)
		if err == nil && len(info.Addrs) == 0 {
			err = fmt.Errorf("it has only an id")
		}
		if err != nil {
			return nil, status.Errorf(status.BadRequest,
				"%q is not the address of a peer: %w (write /ip4/ADDRESS/tcp/PORT/p2p/ID)", s, err)
		}
		i, ok := at[info.ID]
		if !ok {
			i = len(infos)
			at[info.ID] = i
			infos = append(infos, peer.AddrInfo{ID: info.ID})
		}
		if !ma.Contains(infos[i].Addrs, info.Addrs[0]) {
			infos[i].Addrs = append(infos[i].Addrs, info.Addrs[0])
		}
	}
	return infos, nil
}

// ParseIDs parses peer IDs. An invalid one is status.BadRequest.
func ParseIDs(ids []string) ([]peer.ID, error) {
	parsed := make([]peer.ID, len(ids))
	for i, s := range ids {
		id, err := peer.Decode(s)
		if err != nil {
			return nil, status.Errorf(status.BadRequest,
				"%q is not a peer id: %w (write it as `allium id` shows it, 12D3KooW…)", s, err)
		}
		parsed[i] = id
	}
	return parsed, nil
}
