package node

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	ds "github.com/ipfs/go-datastore"
	pebbleds "github.com/ipfs/go-ds-pebble"

	"allium/protocols/status"
)

// recordsDir is what discovery keeps, below the home directory.
const recordsDir = "records"

// Bounds of the memory that the records take beside those in RAM.
const (
	recordsMemTable = 1 << 20 // bytes
	recordsCache    = 1 << 20 // bytes
)

func openRecords(dir string) (ds.Batching, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil { // the database would let others read it
		return nil, err
	}
	d, err := pebbleds.NewDatastore(dir, pebbleds.WithCacheSize(recordsCache), pebbleds.WithPebbleOpts(&pebble.Options{
		FormatMajorVersion: pebble.FormatValueSeparation,
		MemTableSize:       recordsMemTable,
		MaxOpenFiles:       64,
		Logger:             quiet{},
	}))
	if err != nil {
		return nil, status.Errorf(status.Internal, "the records of discovery in %s cannot be opened: %w; they can be deleted while the node is stopped, the network has them too", dir, err)
	}
	return d, nil
}

// quiet drops what the records' database tells about its work. What fails comes
// back as an error.
type quiet struct{}

func (quiet) Infof(string, ...any)         {}
func (quiet) Errorf(string, ...any)        {}
func (quiet) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }

// seedManifest reads the signed list of seeds; nil when none is configured. A
// relative path is one below the home directory.
func (n *Node) seedManifest() func() ([]byte, error) {
	name := n.cfg.DHT.Seeds.SeedManifest
	if name == "" {
		return nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(n.home, name)
	}
	return func() ([]byte, error) { return readSeeds(name) }
}
