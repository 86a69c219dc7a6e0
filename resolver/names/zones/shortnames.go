package zones

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/name"
	"allium/protocols/status"
)

// Origin says where the zone of a name was found.
type Origin string

// The origins, in the order in which they are asked.
const (
	FromKey     Origin = "key"     // the name has the key of its zone
	FromPetname Origin = "petname" // the user chose the short name
	FromMap     Origin = "map"     // a signer gave the short name
	FromDNS     Origin = "dns"     // the DNS has a link of the domain, see package dnslink
)

// Found is a zone, and where it was found.
type Found struct {
	Short    name.Label // zero for FromKey
	Zone     name.Zone
	Origin   Origin
	Signer   peer.ID   // of the map, for FromMap
	NotAfter time.Time // end of the map, for FromMap
}

// ShortNames are the short names of a home directory as they were read. It is immutable.
type ShortNames struct {
	petnames *petnames
	maps     []zoneMap
}

// zoneMap is a map as it was read.
type zoneMap struct {
	mapFile
	name.Map
	spellings name.Spellings
	err       error // why it is not used; the life is checked at each look-up
}

// ShortNames reads the petnames and the maps. Petnames that cannot be read are an error; a map
// that cannot be read is an error of the look-ups that reach it.
func (z *Zones) ShortNames() (*ShortNames, error) { return z.shortNames(nil) }

// shortNames is ShortNames with numbers of maps that were seen, beside those of the file.
func (z *Zones) shortNames(seen seenMaps) (*ShortNames, error) {
	p, err := z.petnames()
	if err != nil {
		return nil, err
	}
	return &ShortNames{petnames: p, maps: z.readMaps(seen)}, nil
}

// readMaps reads the maps, and refuses those that are older than what was seen, or that cannot be
// compared.
func (z *Zones) readMaps(more seenMaps) []zoneMap {
	maps := make([]zoneMap, len(z.maps))
	if len(maps) == 0 {
		return nil
	}
	seen, unknown := z.seenMaps()
	seen.raise(more)
	for i, f := range z.maps {
		m, err := readMap(f)
		if err == nil {
			err = cmp.Or(unknown, seen.rollback(f, m.Seq))
		}
		maps[i] = zoneMap{mapFile: f, Map: m, err: f.failed(err)}
		for _, e := range m.Entries {
			_ = maps[i].spellings.Add(e.Short) // VerifyMap refuses names that look alike
		}
	}
	return maps
}

// failed returns err with the name of the map; nil for nil.
func (f mapFile) failed(err error) error {
	if err == nil {
		return nil
	}
	return status.Errorf(status.Of(err), "%s of names.maps: %w", f.file, err)
}

// readMap reads the file of a map, without the check of its end.
func readMap(f mapFile) (name.Map, error) {
	text, err := readText(f.file)
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err // the caller names the file
		}
		return name.Map{}, status.Errorf(status.BadRequest, "the file cannot be read: %w", err)
	}
	m, signer, err := name.VerifyMap(text)
	if err != nil {
		return name.Map{}, err
	}
	if signer != f.signer {
		return name.Map{}, status.Errorf(status.BadSignature,
			"the zone map is signed by %s, not by %s", signer, f.signer)
	}
	return m, nil
}

// readText reads at most one byte more than a map may have.
func readText(file string) ([]byte, error) {
	info, err := os.Stat(file) // opening a pipe would block
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, name.MaxMapText+1))
}

// Lookup returns the zone with a short name: that of the petname, or else of the first map that
// has it. The error is
//
//   - not_found: nothing has it;
//   - the error of a map that cannot be read, or has expired (stale), and would be asked before;
//   - conflict: it looks like another short name of what is asked before.
func (s *ShortNames) Lookup(short name.Label, now time.Time) (Found, error) {
	if zone, ok := s.petnames.zones[short]; ok {
		return Found{Short: short, Zone: zone, Origin: FromPetname}, nil
	}
	like, confusable := s.petnames.spellings.Like(short)
	for i := range s.maps {
		m := &s.maps[i]
		if m.err != nil {
			return Found{}, m.err
		}
		if err := m.failed(m.CheckLife(now)); err != nil {
			return Found{}, err
		}
		if zone, ok := m.Map.Lookup(short); ok {
			if confusable {
				return Found{}, &name.ConfusableError{Label: short, With: like}
			}
			return Found{Short: short, Zone: zone, Origin: FromMap, Signer: m.signer, NotAfter: m.NotAfter}, nil
		}
		if !confusable {
			like, confusable = m.spellings.Like(short)
		}
	}
	return Found{}, status.Errorf(status.NotFound,
		"no zone has the short name %q; give it one with `allium zone import --petname %s KEY`", short, short)
}

// Expand returns the name that s stands for: <label>.<zone key>, or <label>.<short name>. The
// error is that of [name.Split] or of Lookup; a domain behind the label is not_found.
func (s *ShortNames) Expand(text string, now time.Time) (name.Name, Found, error) {
	label, rest, err := name.Split(text)
	if err != nil {
		return name.Name{}, Found{}, err
	}
	found, err := s.Zone(rest, now)
	return name.Name{Label: label, Zone: found.Zone}, found, err
}

// Zone returns the zone that text stands for: its key, or a short name.
func (s *ShortNames) Zone(text string, now time.Time) (Found, error) {
	if zone, err := name.ParseZone(text); err == nil {
		return Found{Zone: zone, Origin: FromKey}, nil
	}
	if strings.Contains(text, ".") {
		return Found{}, status.Errorf(status.NotFound, "%.80q is neither the key of a zone nor a short name", text)
	}
	short, err := name.ParseShort(text)
	if err != nil {
		return Found{}, err
	}
	return s.Lookup(short, now)
}

// All returns every short name in the order in which they are asked, also those that others
// hide, and the errors of the maps.
func (s *ShortNames) All(now time.Time) (all []Found, errs []error) {
	for _, e := range s.petnames.entries() {
		all = append(all, Found{Short: e.Short, Zone: e.Zone, Origin: FromPetname})
	}
	for i := range s.maps {
		m := &s.maps[i]
		err := m.err
		if err == nil {
			err = m.failed(m.CheckLife(now))
		}
		if err != nil {
			errs = append(errs, err)
		}
		for _, e := range m.Entries {
			all = append(all,
				Found{Short: e.Short, Zone: e.Zone, Origin: FromMap, Signer: m.signer, NotAfter: m.NotAfter})
		}
	}
	return all, errs
}
