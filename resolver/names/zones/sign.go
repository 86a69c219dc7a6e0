package zones

import (
	"time"

	"allium/protocols/name"
	"allium/protocols/status"
)

// SignMap returns the petnames as a zone map, signed with the key of the zone signer and valid
// for life, as text for a file. The errors are those of Key and of [name.SignMap].
func (z *Zones) SignMap(signer name.Zone, life time.Duration, now time.Time) ([]byte, name.Map, error) {
	key, err := z.Key(signer)
	if err != nil {
		return nil, name.Map{}, err
	}
	entries, err := z.Petnames()
	if err != nil {
		return nil, name.Map{}, err
	}
	if len(entries) == 0 {
		return nil, name.Map{}, status.Errorf(status.BadRequest,
			"there are no petnames to sign; set some with `allium zone import --petname NAME KEY`")
	}
	m, err := name.NewMap(name.NextSeq(0, now), now.Add(life), entries)
	if err != nil {
		return nil, name.Map{}, err
	}
	text, err := name.SignMap(key, m, now)
	return text, m, err
}
