package session

import (
	"fmt"

	"github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/oap"
)

// ValidRegion reports whether s may be Deps.Region: empty, or a label of at most 32 bytes.
func ValidRegion(s string) bool { return oap.ValidRegion(s) }

// regions holds the regions that peers claim. A peer's region outlives its sessions. When there are
// too many, the least recently used is dropped. Its methods are safe for concurrent use.
type regions struct {
	own    string
	claims *lru.Cache[peer.ID, string]
}

func newRegions(own string) (r regions, err error) {
	if !oap.ValidRegion(own) {
		return r, fmt.Errorf("the region %q is no label of at most %d bytes", own, oap.MaxRegion)
	}
	r.own = own
	r.claims, err = lru.New[peer.ID, string](ratedPeers)
	return r, err
}

// claimed records the region in a HELLO of p, which is empty when p says none.
func (r regions) claimed(p peer.ID, region string) {
	if region == "" {
		r.claims.Remove(p)
		return
	}
	r.claims.Add(p, region)
}

// Region returns where p said in its last HELLO that it is, or the empty string. It is a claim. It
// does not wait.
func (s *Service) Region(p peer.ID) string {
	region, _ := s.regions.claims.Get(p)
	return region
}
