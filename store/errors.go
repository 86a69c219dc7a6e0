package store

import (
	"allium/protocols/b3"
	"allium/protocols/status"
)

func badDigest(want, got b3.Root) error {
	return status.Errorf(status.BadDigest, "the bytes hash to %s, not to %s; nothing was stored", got, want)
}
