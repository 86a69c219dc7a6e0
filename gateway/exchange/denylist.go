package exchange

import (
	"strings"

	"allium/protocols/b3"
)

// Denylist knows what is not to be served. Its errors are denied; it neither
// waits nor does I/O.
type Denylist interface {
	Object(root b3.Root) error
	// Path is Object of root, of every directory on the way and of what is at the
	// path, as far as the list names them by their path.
	Path(root b3.Root, path string) error
}

// DeniedKey says whether a key, an address with or without a path below it, names
// what is not to be served.
func DeniedKey(list Denylist, key string) error {
	if _, none := list.(NothingDenied); none || key == "" {
		return nil
	}
	address, path, _ := strings.Cut(key, "/")
	if root, err := b3.Parse(address); err == nil { // what else is wrong with it the handler says
		return list.Path(root, strings.Trim(path, "/"))
	}
	return nil
}

// NothingDenied is the list of a gateway without one.
type NothingDenied struct{}

// Object denies nothing.
func (NothingDenied) Object(b3.Root) error { return nil }

// Path denies nothing.
func (NothingDenied) Path(b3.Root, string) error { return nil }
