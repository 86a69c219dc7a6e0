package pack

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"allium/gateway/exchange"
	"allium/internal/limits"
	"allium/protocols/status"
)

// Config configures the packs of the group edge.
// node/config/keys.txt says what each key means.
type Config struct {
	Dir       string       `koanf:"dir"`
	PackCache limits.Bytes `koanf:"pack_cache"`
	CORS      []string     `koanf:"cors" hot:"true"`

	Packs map[string]Mount `koanf:"packs" hot:"true"` // at most MaxPacks, by name
}

// Mount is the place of a pack. Exactly one of its fields is set.
type Mount struct {
	File string `koanf:"file"` // below Config.Dir, with slashes: fs.ValidPath accepts it
	Key  string `koanf:"key"`  // address or name
}

// MaxPacks is the largest number of packs of a node.
const MaxPacks = 1024

// The bounds of Config.PackCache.
const (
	minPackCache limits.Bytes = 1 << 20
	maxPackCache limits.Bytes = 4 << 30
)

// DefaultConfig returns no packs, the directory packs, and a cache of 32 MiB. Pages of every origin
// may read packs.
func DefaultConfig() Config {
	return Config{Dir: "packs", PackCache: 32 << 20, CORS: []string{"*"}}
}

// Validate returns bad_request and names the keys with invalid values, one of each pack.
func (c Config) Validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, status.Errorf(status.BadRequest, "edge.dir is empty, must be a directory"))
	}
	if c.PackCache < minPackCache || c.PackCache > maxPackCache {
		errs = append(errs, status.Errorf(status.BadRequest,
			"edge.pack_cache is %s, must be %s to %s", c.PackCache, minPackCache, maxPackCache))
	}
	if len(c.Packs) > MaxPacks {
		errs = append(errs, status.Errorf(status.BadRequest,
			"edge.packs has %d packs, must have at most %d", len(c.Packs), MaxPacks))
	}
	errs = append(errs, exchange.CheckOrigins("edge.cors", c.CORS))
	for _, name := range slices.Sorted(maps.Keys(c.Packs)) {
		errs = append(errs, c.Packs[name].validate(name))
	}
	return errors.Join(errs...)
}

func (m Mount) validate(name string) error {
	if err := exchange.CheckEntryName("edge.packs", name); err != nil {
		return err
	}
	key := "edge.packs." + name
	switch {
	case m.File == "" && m.Key == "":
		return status.Errorf(status.BadRequest, "%s has neither file nor key. Set one of them", key)
	case m.File != "" && m.Key != "":
		return status.Errorf(status.BadRequest, "%s has both file and key. Leave one of them out", key)
	case m.File != "" && (!fs.ValidPath(m.File) || m.File == "." || !filepath.IsLocal(filepath.FromSlash(m.File))):
		return status.Errorf(status.BadRequest,
			"%s.file is %q, must be a path below edge.dir such as city.pmtiles, without ..", key, m.File)
	}
	return exchange.CheckContentKey(key+".key", m.Key)
}
