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

// TestMayReturn: which failures of a peer are worth a wait of up to a minute.
func TestMayReturn(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{status.Errorf(status.TransportDown, "reset"), true},
		{status.Errorf(status.Busy, "full"), true},
		{status.Errorf(status.NotFound, "absent"), false},
		{status.Errorf(status.Corrupt, "other bytes"), false},
		{status.Errorf(status.TransportDown, "no stream: %w",
			&status.Error{Outcome: status.TransportDown, Message: "used up", Lasting: true}), false},
	} {
		var all Attempts
		all.Note("peer", tt.err)
		if got := MayReturn(tt.err); got != tt.want || all.MayReturn() != tt.want ||
			WorthRetrying(tt.err, true) != tt.want {
			t.Errorf("%v: %t, %t and %t, want %t", tt.err, got, all.MayReturn(), WorthRetrying(tt.err, true), tt.want)
		}
	}
}
