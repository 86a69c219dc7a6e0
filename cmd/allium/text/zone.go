package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"allium/internal/printable"
)

// Zone is a zone and where its short name is from.
type Zone struct {
	Name     string     `json:"name,omitempty"`
	From     string     `json:"from"` // petname, map, or key for a zone without a short name
	Zone     string     `json:"zone"`
	Own      bool       `json:"own"` // the private key is in the home directory
	Signer   string     `json:"signer,omitempty"`
	NotAfter *time.Time `json:"not_after,omitempty"` // end of the map
}

// Zones is the list of zones of a home directory.
type Zones struct {
	Zones []Zone `json:"zones"`
}

// String returns the list, with quiet only the keys, each once.
func (l Zones) String(quiet bool) string {
	if quiet {
		var keys []string
		seen := map[string]bool{}
		for _, z := range l.Zones {
			if !seen[z.Zone] {
				seen[z.Zone] = true
				keys = append(keys, z.Zone)
			}
		}
		return strings.Join(keys, "\n")
	}
	if len(l.Zones) == 0 {
		return "no zones; `allium zone new` makes one"
	}
	width := len("name")
	for _, z := range l.Zones {
		width = max(width, len([]rune(z.Name)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%-*s  own  %-62s  from", width, "name", "zone")
	for _, z := range l.Zones {
		own := ""
		if z.Own {
			own = "*"
		}
		fmt.Fprintf(&b, "\n%-*s  %-3s  %-62s  %s", width, dash(z.Name), own, z.Zone, z.From)
		if z.Signer != "" {
			fmt.Fprintf(&b, " of %s until %s", z.Signer, z.NotAfter.UTC().Format(time.RFC3339))
		}
	}
	return b.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ZoneMap is a signed zone map.
type ZoneMap struct {
	Signer   string    `json:"signer"` // peer id
	Seq      uint64    `json:"seq"`
	NotAfter time.Time `json:"not_after"`
	Names    int       `json:"names"`
	Map      string    `json:"map"`
}

// String describes the map without its text.
func (m ZoneMap) String() string {
	return fmt.Sprintf("signed by  %s\nuntil      %s\nsequence   %d\nnames      %d",
		m.Signer, m.NotAfter.Format(time.RFC3339), m.Seq, m.Names)
}

// Quote returns a text that the user typed, in quotes and cut after 80 bytes.
func Quote(s string) string { return strconv.Quote(printable.Name(s[:min(len(s), 80)])) }
