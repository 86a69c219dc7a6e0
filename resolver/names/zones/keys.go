package zones

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/libp2p/go-libp2p/core/crypto"

	"allium/internal/keyfile"
	"allium/internal/privatefile"
	"allium/protocols/name"
	"allium/protocols/status"
)

// keysDir is the directory of the zones' keys below a home directory. A key's file is the key
// of its zone with keyExt.
const (
	keysDir = "zones"
	keyExt  = ".key"
)

// maxKeys is the most zones that a home directory can have the keys of.
const maxKeys = 256

// Zones are the names of a home directory. It has no state: each method reads the files. It is
// safe for concurrent use, also by several processes.
type Zones struct {
	home    string
	maps    []mapFile
	amnesia bool
}

// Open returns the names of a home directory, which need not exist. It reads nothing yet. With
// amnesia the methods that would write return status.Amnesia.
func Open(home string, cfg Config, amnesia bool) (*Zones, error) {
	maps, err := cfg.files()
	if err != nil {
		return nil, err
	}
	for i, m := range maps {
		if !filepath.IsAbs(m.file) {
			maps[i].file = filepath.Join(home, m.file)
		}
	}
	return &Zones{home: home, maps: maps, amnesia: amnesia}, nil
}

// file returns the name of a file of the home directory.
func (z *Zones) file(base string) string { return filepath.Join(z.home, base) }

// KeyFile returns the name of the file with the key of a zone.
func (z *Zones) KeyFile(zone name.Zone) string {
	return filepath.Join(z.home, keysDir, zone.String()+keyExt)
}

// Own returns the zones that the home directory has a key of, in the order of their keys. It
// opens no key. Files with other names are ignored.
func (z *Zones) Own() ([]name.Zone, error) {
	files, err := os.ReadDir(z.file(keysDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the keys of zones: %w", err)
	}
	var own []name.Zone
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), keyExt)
		if !ok {
			continue
		}
		if zone, err := name.ParseZone(id); err == nil && zone.String() == id {
			own = append(own, zone)
		}
	}
	return own, nil
}

// Key returns the private key of a zone. The error is not_found if the home directory does not
// have it, forbidden if other users can open the file, and corrupt if it is not that key.
func (z *Zones) Key(zone name.Zone) (crypto.PrivKey, error) {
	file := z.KeyFile(zone)
	text, err := privatefile.Read(file, keyfile.MaxBytes, privatefile.NoAccess)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(status.NotFound,
			"there is no key of the zone %s here; `allium zone ls` lists the zones", zone)
	}
	if err != nil {
		return nil, err
	}
	key, err := keyfile.Decode(text)
	if err == nil && !zone.Signs(key.GetPublic()) {
		err = errors.New("it is the key of another zone")
	}
	if err != nil {
		return nil, status.Errorf(status.Corrupt,
			"%s does not hold the key of its zone: %w; restore it from a backup", file, err)
	}
	return key, nil
}

// New makes a zone: it writes a new key, and the petname short for it unless that is zero.
// The errors of a petname are those of SetPetname; then no key is written.
func (z *Zones) New(ctx context.Context, short name.Label) (name.Zone, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return name.Zone{}, err
	}
	return z.add(ctx, key, short)
}

// Import adds the zone of a private key in the text that Export returns, and the petname short
// for it unless that is zero. Importing a key again changes nothing. Text that is no such key is
// bad_request; the error never quotes it.
func (z *Zones) Import(ctx context.Context, text []byte, short name.Label) (name.Zone, error) {
	key, err := keyfile.Decode(text)
	if err != nil {
		return name.Zone{}, status.Errorf(status.BadRequest, "it is not the private key of a zone: %w", err)
	}
	return z.add(ctx, key, short)
}

// Export returns the private key of a zone as text. The errors are those of Key.
func (z *Zones) Export(zone name.Zone) ([]byte, error) {
	key, err := z.Key(zone)
	if err != nil {
		return nil, err
	}
	return keyfile.Encode(key)
}

// add writes the key of a zone and its petname.
func (z *Zones) add(ctx context.Context, key crypto.PrivKey, short name.Label) (name.Zone, error) {
	zone, err := name.ZoneOf(key.GetPublic())
	if err != nil {
		return name.Zone{}, err
	}
	text, err := keyfile.Encode(key)
	if err != nil {
		return name.Zone{}, err
	}
	err = z.change(ctx, func() error {
		own, err := z.Own()
		if err != nil {
			return err
		}
		if len(own) >= maxKeys && !slices.Contains(own, zone) {
			return status.Errorf(status.Conflict, "%s has the keys of %d zones, at most %d; move some away",
				z.file(keysDir), len(own), maxKeys)
		}
		var names *petnames
		if !short.IsZero() {
			if names, err = z.withPetname(short, zone); err != nil {
				return err
			}
		}
		if err := z.writeKey(zone, text); err != nil || names == nil {
			return err
		}
		return names.write()
	})
	return zone, err
}

// writeKey creates the file of a key. A file that has this key already is left as it is.
func (z *Zones) writeKey(zone name.Zone, text []byte) error {
	file := z.KeyFile(zone)
	err := privatefile.Create(file, text)
	if !errors.Is(err, fs.ErrExist) {
		if err != nil {
			return fmt.Errorf("write the key of the zone: %w", err)
		}
		return nil
	}
	old, err := z.Export(zone)
	if err == nil && !bytes.Equal(old, text) { // not possible while the file name is the public key
		err = status.Errorf(status.Conflict, "%s has another key", file)
	}
	return err
}

// change runs f while no other process changes the files. With amnesia it is status.Amnesia.
func (z *Zones) change(ctx context.Context, f func() error) error {
	if z.amnesia {
		return status.Errorf(status.Amnesia,
			"node.amnesia keeps everything in RAM, so neither keys of zones nor petnames "+
				"are written; turn it off, or use another home directory")
	}
	return privatefile.Locked(ctx, z.home, f)
}
