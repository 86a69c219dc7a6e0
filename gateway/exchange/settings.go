package exchange

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"allium/internal/lazyregexp"
	"allium/protocols/status"
)

// CheckOrigins returns bad_request if the list of origins of a configuration key has an entry that no browser
// sends as an origin.
func CheckOrigins(key string, origins []string) error {
	for _, o := range origins {
		u, err := url.Parse(o)
		valid := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.Scheme+"://"+u.Host == o
		if o != "*" && !valid {
			return status.Errorf(status.BadRequest,
				"%s contains %q. Set it to origins such as https://app.example.org, or to *", key, o)
		}
	}
	return nil
}

var entryName = lazyregexp.New(`\A[a-z0-9][a-z0-9_-]{0,62}\z`)

// CheckEntryName returns bad_request if a table of the configuration that is named by the operator, such as
// edge.packs.city, has a name that cannot be one element of a URL's path. table is edge.packs.
func CheckEntryName(table, name string) error {
	if !entryName().MatchString(name) {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			name = strconv.Quote(name)
		}
		return status.Errorf(status.BadRequest, "%s.%s cannot be named so. Choose a name of 1 to 63 of a-z, 0-9, - "+
			"and _ that begins with a letter or a digit", table, name)
	}
	return nil
}

// maxContentKey is the largest length of an address or a name in the configuration, in bytes.
const maxContentKey = 1024

// CheckContentKey returns bad_request if a configuration key has a value that is neither empty nor like an address or
// a name. Whether there is such content only the network knows.
func CheckContentKey(key, value string) error {
	odd := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if len(value) > maxContentKey || !utf8.ValidString(value) || strings.ContainsFunc(value, odd) {
		return status.Errorf(status.BadRequest, "%s is %.80q, must be an address (b3:…) or a name", key, value)
	}
	return nil
}
