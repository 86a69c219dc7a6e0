package zones

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"allium/internal/privatefile"
	"allium/protocols/name"
	"allium/protocols/status"
)

// petnamesFile is the file of petnames below a home directory.
const petnamesFile = "petnames"

// The bounds of the petnames.
const (
	maxPetnames     = 4096
	maxPetnamesText = 1 << 20 // bytes; maxPetnames lines have at most half of it
)

// petnamesHead begins the file. Comments are not kept when a command changes it.
const petnamesHead = "allium-petnames/1\n# NAME ZONE, one a line. Edit or remove lines as you like.\n"

// petnames are the short names that the user chose.
type petnames struct {
	file      string
	zones     map[name.Label]name.Zone
	spellings name.Spellings
}

// petnames reads the file of petnames. There are none without a file.
func (z *Zones) petnames() (*petnames, error) {
	p := &petnames{file: z.file(petnamesFile), zones: map[name.Label]name.Zone{}}
	text, err := privatefile.Read(p.file, maxPetnamesText, privatefile.NoWrites)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	if err := p.parse(text); err != nil {
		return nil, status.Errorf(status.Corrupt,
			"%s: %w; repair the line, or restore the file from a backup", p.file, err)
	}
	return p, nil
}

// parse reads the text of the file.
func (p *petnames) parse(text []byte) error {
	if len(text) > maxPetnamesText {
		return fmt.Errorf("it has more than %d bytes", maxPetnamesText)
	}
	head, _, _ := strings.Cut(petnamesHead, "\n")
	n := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if n++; n == 1 {
			if line != head {
				return fmt.Errorf("line 1 is not %q", head)
			}
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) != 2 {
			return fmt.Errorf("line %d is not a name and a key", n)
		}
		short, err := name.ParseShort(fields[0])
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		zone, err := name.ParseZone(fields[1])
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := p.add(short, zone); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if n == 0 {
		return errors.New("it is empty")
	}
	return nil
}

// add adds a petname that looks like no other and has no other zone.
func (p *petnames) add(short name.Label, zone name.Zone) error {
	old, ok := p.zones[short]
	switch {
	case ok && old != zone:
		return status.Errorf(status.Conflict,
			"%q is the petname of %s already; edit %s to change it", short, old, p.file)
	case !ok && len(p.zones) >= maxPetnames:
		return status.Errorf(status.Conflict,
			"%s has %d petnames, at most %d; remove some", p.file, len(p.zones), maxPetnames)
	}
	if err := p.spellings.Add(short); err != nil {
		return err
	}
	p.zones[short] = zone
	return nil
}

// write replaces the file.
func (p *petnames) write() error {
	b := bytes.NewBufferString(petnamesHead)
	for _, e := range p.entries() {
		fmt.Fprintf(b, "%s %s\n", e.Short, e.Zone)
	}
	return privatefile.Replace(p.file, b.Bytes())
}

// entries returns the petnames in byte order.
func (p *petnames) entries() []name.Entry {
	all := make([]name.Entry, 0, len(p.zones))
	for short, zone := range p.zones {
		all = append(all, name.Entry{Short: short, Zone: zone})
	}
	slices.SortFunc(all, func(a, b name.Entry) int { return cmp.Compare(a.Short.String(), b.Short.String()) })
	return all
}

// SetPetname gives a zone a petname. Setting it again changes nothing. The error is conflict if
// another zone has that petname, or if it looks like another short name, of a map too.
func (z *Zones) SetPetname(ctx context.Context, short name.Label, zone name.Zone) error {
	return z.change(ctx, func() error {
		p, err := z.withPetname(short, zone)
		if err != nil {
			return err
		}
		return p.write()
	})
}

// withPetname returns the petnames with one more, which looks like no other short name.
func (z *Zones) withPetname(short name.Label, zone name.Zone) (*petnames, error) {
	if _, err := name.ParseShort(short.String()); err != nil {
		return nil, err
	}
	p, err := z.petnames()
	if err != nil {
		return nil, err
	}
	if err := p.add(short, zone); err != nil {
		return nil, err
	}
	for _, m := range z.readMaps(nil) {
		if like, ok := m.spellings.Like(short); ok && like != short {
			return nil, &name.ConfusableError{Label: short, With: like}
		}
	}
	return p, nil
}

// Petnames returns the petnames in byte order.
func (z *Zones) Petnames() ([]name.Entry, error) {
	p, err := z.petnames()
	if err != nil {
		return nil, err
	}
	return p.entries(), nil
}
