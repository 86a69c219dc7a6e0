package term

import (
	"fmt"
	"strings"

	"allium/gateway/api"
)

// Ready returns what `allium run` prints: the peer id, a line for each address that
// the node listens on, and the word ready, with the gates that are still shut.
func Ready(id api.ID, r api.Readiness) string {
	lines := []string{"peer " + id.ID}
	for _, addr := range id.Addrs {
		lines = append(lines, "listening on "+addr)
	}
	for _, l := range []struct{ what, addr string }{
		{"gateway on", id.Gateway},
		{"gateway from this machine", id.GatewayLocal},
		{"redirect on", id.Redirect},
		{"admin on", id.Admin},
		{"console on", consoleOf(id.Admin)},
	} {
		if l.addr != "" {
			lines = append(lines, l.what+" "+l.addr)
		}
	}
	return strings.Join(append(lines, ReadyExcept(r)), "\n")
}

// Member returns the line that `allium testnet up` prints of a node.
func Member(name string, id api.ID, home string) string {
	return fmt.Sprintf("%-8s %s  gateway %s  console %s  home %s", name, id.ID, id.Gateway, consoleOf(id.Admin), home)
}

// consoleOf returns the URL of the console of an admin listener, empty for none.
func consoleOf(admin string) string {
	if admin == "" {
		return ""
	}
	return admin + "/console/"
}

// ReadyExcept is the word ready, with the gates for which the node is not.
func ReadyExcept(r api.Readiness) string {
	if r.Ready {
		return "ready"
	}
	var shut []string
	for _, g := range r.Gates {
		if !g.Ready {
			shut = append(shut, fmt.Sprintf("%s (%s)", g.Name, g.Fix))
		}
	}
	return "ready, except: " + strings.Join(shut, ", ")
}
