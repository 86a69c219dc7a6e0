package store

import (
	"allium/protocols/b3"
	"allium/protocols/status"
)

func notFound(root b3.Root) error {
	return status.Errorf(status.NotFound, "%s is not stored here; fetch it from a provider or add it", root)
}

// corrupt is the error of an object whose stored bytes are wrong or missing.
// why must not repeat the address.
func corrupt(root b3.Root, why string) error {
	return status.Errorf(status.Corrupt, "the stored copy of %s is damaged (%s) and is not served; "+
		"fetch it again or add the file again to replace it", root, why)
}

func badDigest(want, got b3.Root) error {
	return status.Errorf(status.BadDigest, "the bytes hash to %s, not to %s; nothing was stored", got, want)
}
