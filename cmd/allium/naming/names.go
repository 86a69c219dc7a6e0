// Package naming has the commands about names: name, publish, follow and zone. It
// puts names into words for a terminal, and makes the DNS records that link a domain
// to one.
package naming

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"allium/gateway/api"
	"allium/internal/printable"
)

// Published describes a name that was published or withdrawn. With quiet it is the whole name.
func Published(n api.OwnName, quiet bool) string {
	if quiet {
		return n.Name
	}
	var b strings.Builder
	b.WriteString(n.Name)
	if n.Short != "" {
		fmt.Fprintf(&b, "\nshort name  %s", n.Short)
	}
	fmt.Fprintf(&b, "\nvalue       %s\nuntil       %s", valueOf(n), n.NotAfter.UTC().Format(time.RFC3339))
	if n.Peers > 0 {
		fmt.Fprintf(&b, "\n%s took the record", peers(n.Peers))
	} else {
		b.WriteString("\nno peer took the record" + stateOf(n) + "; the node sends it again")
	}
	if n.Missing {
		b.WriteString("\nwarning: this node does not have the object; `allium add` or `allium pin add` stores it")
	}
	return b.String()
}

// Own describes a name that this node publishes. With quiet it is the whole name.
func Own(n api.OwnName, quiet bool) string {
	if quiet {
		return n.Name
	}
	s := fmt.Sprintf("%s  %s", n.Name, valueOf(n))
	if n.Short != "" {
		s += "\n  " + n.Short
	}
	s += "\n  until " + n.NotAfter.UTC().Format(time.RFC3339)
	switch {
	case n.Problem != "":
		return s + ", " + n.Problem + stateOf(n)
	case n.Peers > 0:
		s += fmt.Sprintf(", %s took it at %s", peers(n.Peers), n.Sent.UTC().Format(time.RFC3339))
	default:
		s += ", no peer took it yet" + stateOf(n)
	}
	if !n.Due.IsZero() {
		s += ", again at " + n.Due.UTC().Format(time.RFC3339)
	}
	return s
}

// valueOf returns the value of a name for a terminal.
func valueOf(n api.OwnName) string { return cmp.Or(printable.Name(n.Value), "(withdrawn)") }

// stateOf returns the reason in a name's error, after a colon.
func stateOf(n api.OwnName) string {
	if n.Error == nil {
		return ""
	}
	return ": " + printable.Name(n.Error.Message)
}

func peers(n int) string {
	if n == 1 {
		return "1 peer"
	}
	return fmt.Sprintf("%d peers", n)
}
