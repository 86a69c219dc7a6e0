package providers

import (
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// TestToldFailures: what a provider says of itself is its failure, not corrupt
// bytes that were seen here nor a fault of this node.
func TestToldFailures(t *testing.T) {
	t.Parallel()
	told := func(o status.Outcome) error {
		code, payload := oap.ErrorPayload(status.Errorf(o, "its own words"))
		return oap.PayloadError(code, payload)
	}
	for name, c := range map[string]struct {
		err  error
		want status.Outcome
		says bool
	}{
		"damaged there":     {told(status.Corrupt), status.Upstream, true},
		"a bug there":       {told(status.Internal), status.Upstream, true},
		"it has not":        {told(status.NotFound), status.NotFound, false},
		"it is busy":        {told(status.Busy), status.Busy, false},
		"bad bytes of it":   {status.Errorf(status.Corrupt, "a group does not hash"), status.Corrupt, false},
		"it is not reached": {status.Errorf(status.TransportDown, "no route"), status.TransportDown, false},
	} {
		tr := &Attempts{}
		tr.Note(peer.ID("p"), c.err)
		err := tr.Error(b3.Sum(nil), "", nil)
		if status.Of(err) != c.want || strings.Contains(err.Error(), "the provider answered") != c.says {
			t.Errorf("%s: %s, %v", name, status.Of(err), err)
		}
	}
}
