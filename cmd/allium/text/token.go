package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"allium/protocols/capability"
)

// Capability says what a capability allows, at the time now.
func Capability(i capability.Info, now time.Time) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name, value)
		}
	}
	line("id", i.ID)
	line("branch", i.Branch)
	line("key", strconv.FormatUint(uint64(i.KeyID), 10))
	line("issued", i.Issued.Format(time.RFC3339))
	if !i.Expires.IsZero() {
		when := "expired"
		if i.Expires.After(now) {
			when = "in " + span(i.Expires.Sub(now))
		}
		line("expires", i.Expires.Format(time.RFC3339)+", "+when)
	}
	ops := "any operation"
	if i.Ops != nil {
		ops = strings.Join(i.Ops, ", ")
	}
	line("allows", ops)
	line("objects", i.Object)
	line("names", i.Name)
	line("methods", strings.Join(i.Methods, ", "))
	if i.MaxBytes >= 0 {
		line("bytes", "at most "+size(i.MaxBytes)+" in one request")
	}
	if i.Rate > 0 {
		line("rate", "at most "+Plural(i.Rate, "request")+" a second")
	}
	line("label", i.Label)
	line("node", i.Node)
	for n, c := range i.Caveats {
		line(fmt.Sprintf("caveat %d", n+1), c)
	}
	if i.Nothing != "" {
		line("nothing", "it allows nothing: "+i.Nothing)
	}
	return b.String() + "not verified: only a node that has the key can check it"
}
