package hosts

import (
	"crypto/sha256"
	"fmt"

	lru "github.com/hashicorp/golang-lru/v2"

	"allium/gateway/site"
	"allium/internal/limits"
)

// maxRemembered bounds the names of hashed label hosts, about 300 bytes each.
const maxRemembered = 4096

// remembered knows the names of label hosts that have only a hash. It is safe for concurrent use.
type remembered = lru.Cache[[sha256.Size]byte, string]

func newRemembered(registry *limits.Registry) (*remembered, error) {
	names, err := lru.New[[sha256.Size]byte, string](maxRemembered)
	if err != nil {
		return nil, fmt.Errorf("create the table of hashed hosts: %w", err)
	}
	registry.NewUsage(limits.Spec{
		Name: "gateway.hashed_hosts", Path: "hosts with the hash of a name → names",
		Policy: "the least recently used is dropped",
	}, maxRemembered, func() int64 { return int64(names.Len()) })
	return names, nil
}

// HostOf returns the label host of a root or a name below that of a gateway, and remembers a name whose host has only
// its hash.
func (f *Finder) HostOf(k site.Key, gateway string) string {
	host, hashed := site.HostOf(k, gateway)
	if hashed && f != nil {
		f.names.Add(k.Digest, k.Name)
	}
	return host
}

// NameOf returns the name of a Key, which may have only its hash. ok is false if that is not remembered.
func (f *Finder) NameOf(k site.Key) (name string, ok bool) {
	if k.Name != "" || f == nil {
		return k.Name, k.Name != ""
	}
	return f.names.Get(k.Digest)
}
