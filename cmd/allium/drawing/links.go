package drawing

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"allium/gateway/api"
)

// linkWords say who can open a link.
var linkWords = map[api.ReachFrom]string{
	api.ReachAnyone:      "anyone",
	api.ReachUnconfirmed: "anyone, unless a firewall keeps them out",
	api.ReachLAN:         "this local network",
	api.ReachMachine:     "this machine",
}

// Links returns a line for each link: whom it is for, and its URL.
func Links(all []api.WebLink) string {
	var b strings.Builder
	for i, l := range all {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "for %s: %s", linkWords[l.Reach], l.URL)
	}
	return b.String()
}

// Download says at a time that a download of a link began, or is whole. allowed is how many there may be; 0: any
// number.
func Download(d api.WebDownload, allowed int, now time.Time) string {
	what := "began a download"
	if d.Whole {
		what = "has it whole"
	}
	line := now.Format(time.TimeOnly) + " " + cmp.Or(d.From, "somebody") + " " + what
	if allowed > 0 {
		line += fmt.Sprintf(" (%d of %d)", d.Count, allowed)
	}
	return line
}
