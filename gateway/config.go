package gateway

import (
	"allium/gateway/content"
	"allium/gateway/exchange"
	"allium/gateway/folder"
	"allium/gateway/hosts"
	"allium/gateway/server"
	"allium/gateway/weblink"
	"allium/protocols/status"
)

// Config configures the public listener and its handlers. Each part belongs to the package that
// it configures.
// node/config/keys.txt says what each key means.
type Config struct {
	server.Config `koanf:",squash"`
	Content       content.Config      `koanf:",squash"`
	Folders       folder.Config       `koanf:",squash"`
	Hosts         hosts.Config        `koanf:",squash"`
	Bodies        exchange.BodyConfig `koanf:"-"` // fixed: never read from a file or the environment

	Denylist  []string `koanf:"denylist" hot:"true"`
	PeerLinks int      `koanf:"peer_links"`
}

// DefaultConfig returns the limits of SPEC §2.
func DefaultConfig() Config {
	return Config{Config: server.DefaultConfig(), Content: content.DefaultConfig(),
		Folders: folder.DefaultConfig(), Bodies: exchange.DefaultBodyConfig(), PeerLinks: 16}
}

// Validate returns bad_request and names the first key with an invalid value.
func (c Config) Validate() error {
	if err := c.Config.Validate(); err != nil {
		return err
	}
	if c.PeerLinks < 0 || c.PeerLinks > weblink.MaxHeld {
		return status.Errorf(status.BadRequest, "gateway.peer_links is %d. Set it to 0 to %d",
			c.PeerLinks, weblink.MaxHeld)
	}
	if err := c.Hosts.Validate(); err != nil {
		return err
	}
	if err := c.Content.Validate(); err != nil {
		return err
	}
	return c.Folders.Validate()
}
