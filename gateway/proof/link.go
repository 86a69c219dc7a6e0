package proof

import (
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"allium/gateway/exchange"
	"allium/internal/lazyregexp"
	"allium/protocols/status"
)

// The bounds of a link.
const (
	maxGateways = 8   // that a link names
	maxOrigin   = 300 // bytes of each
	maxName     = 200 // bytes of the name of a file
)

// origin is the form of a gateway in a link, which stands in a policy: a host in ASCII, or an IPv6 address.
var origin = lazyregexp.New(`\Ahttps?://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?\z`)

// gateways returns the origins that the query of a link names, each once. It returns bad_request for a text that is
// none, and for more than maxGateways.
func gateways(query url.Values) ([]string, error) {
	var all []string
	for _, text := range query["from"] {
		for o := range strings.SplitSeq(text, ",") {
			if o = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(o)), "/"); o == "" {
				continue
			}
			if !isOrigin(o) {
				return nil, status.Errorf(status.BadRequest, "parameter from has %q, which is no origin. "+
					"Write gateways as https://gateway.example.org, without a path", exchange.Clip(o))
			}
			if slices.Contains(all, o) {
				continue
			}
			if all = append(all, o); len(all) > maxGateways {
				return nil, status.Errorf(status.BadRequest,
					"parameter from names more than %d gateways. Leave out some", maxGateways)
			}
		}
	}
	return all, nil
}

// isOrigin reports whether a lowercase text is the origin of a gateway.
func isOrigin(text string) bool {
	if len(text) > maxOrigin {
		return false
	}
	parts := origin().FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	if _, err := url.Parse(text); err != nil {
		return false
	}
	port, err := strconv.ParseUint(parts[1], 10, 16)
	return parts[1] == "" || err == nil && port > 0
}

// fileName returns the last element of a name that a link gives, without what a file system or a reader would take for
// something else, or "" if nothing is left.
func fileName(text string) string {
	text = path.Base(strings.ReplaceAll(text, `\`, "/"))
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > maxName { // its ending says the type
		ending := path.Ext(text)
		if len(ending) > 16 {
			ending = ""
		}
		text = strings.ToValidUTF8(text[:maxName-len(ending)], "") + ending
	}
	return strings.Trim(text, ". ")
}
