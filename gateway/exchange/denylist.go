package exchange

import (
	"strings"

	"allium/protocols/address"
	"allium/protocols/b3"
)

// Denylist tells which content the operator does not serve. Its methods return denied for
// such content and nil otherwise. They neither wait nor do I/O.
type Denylist interface {
	// Object checks an object.
	Object(root b3.Root) error
	// Path checks root, the entry at the path and every directory between them, if the list
	// names it by its path.
	Path(root b3.Root, path string) error
}

// CheckDenied checks a key, which is an address in any form with or without a path below it. A
// malformed key passes, because the handler reports what is wrong with it.
func CheckDenied(list Denylist, key string) error {
	if _, none := list.(NothingDenied); none || key == "" {
		return nil
	}
	if full, err := address.Canonical(key); err == nil {
		key = full
	}
	first, path, _ := strings.Cut(key, "/")
	if root, err := b3.Parse(first); err == nil {
		return list.Path(root, strings.Trim(path, "/"))
	}
	return nil
}

// NothingDenied is an empty Denylist.
type NothingDenied struct{}

// Object denies nothing.
func (NothingDenied) Object(b3.Root) error { return nil }

// Path denies nothing.
func (NothingDenied) Path(b3.Root, string) error { return nil }
