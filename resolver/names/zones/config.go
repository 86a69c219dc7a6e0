package zones

import (
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/status"
)

// maxMaps is the most zone maps of a configuration.
const maxMaps = 16

// Config says where the zones of short names are found. node/config/keys.txt documents the keys.
type Config struct {
	// Maps are zone maps in the order in which they are asked, each SIGNER=FILE. A relative FILE
	// is below the home directory.
	Maps []string `koanf:"maps"`
	// DNS asks the DNS for what neither a petname nor a map has.
	DNS bool `koanf:"dns"`
}

// Validate returns status.BadRequest with the first invalid key.
func (c Config) Validate() error {
	_, err := c.files()
	return err
}

// mapFile is a zone map that the configuration names.
type mapFile struct {
	signer peer.ID
	file   string
}

// files parses Maps.
func (c Config) files() ([]mapFile, error) {
	if len(c.Maps) > maxMaps {
		return nil, status.Errorf(status.BadRequest, "names.maps has %d maps, more than %d", len(c.Maps), maxMaps)
	}
	files := make([]mapFile, len(c.Maps))
	for i, s := range c.Maps {
		id, file, ok := strings.Cut(s, "=")
		if !ok || file == "" {
			return nil, status.Errorf(status.BadRequest,
				"names.maps: %q is not SIGNER=FILE, such as 12D3KooW…=/etc/team.map", s)
		}
		signer, err := peer.Decode(id)
		if err != nil {
			return nil, status.Errorf(status.BadRequest,
				"names.maps: %q is not the id of a signer: %w (`allium zone export --map` shows it)", id, err)
		}
		files[i] = mapFile{signer, file}
	}
	return files, nil
}
