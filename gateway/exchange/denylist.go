package exchange

import (
	"strings"

	"allium/gateway/policy"
	"allium/protocols/address"
	"allium/protocols/b3"
)

// CheckDenied checks a key, which is an address in any form with or without a path below it. A
// malformed key passes, because the handler reports what is wrong with it.
func CheckDenied(filter policy.Filter, key string) error {
	if _, none := filter.(policy.AllowAll); none || key == "" {
		return nil
	}
	if full, err := address.Canonical(key); err == nil {
		key = full
	}
	first, path, _ := strings.Cut(key, "/")
	if root, err := b3.Parse(first); err == nil {
		return filter.Path(root, strings.Trim(path, "/"))
	}
	return nil
}
