package peerlinks

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/gateway/weblink"
	"allium/protocols/links"
	"allium/protocols/status"
)

// gateways are peers that answer with these URLs.
type gateways struct {
	urls  map[peer.ID]string
	ended []peer.ID
}

// Call implements links.Caller.
func (g *gateways) Call(_ context.Context, p peer.ID, _ uint16, payload []byte) ([]byte, error) {
	var m struct{ Op string }
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, err
	}
	if m.Op == "close" {
		g.ended = append(g.ended, p)
		return []byte(`{"ended":true}`), nil
	}
	return json.Marshal(map[string]string{"id": "x", "url": g.urls[p]})
}

// TestOpen: a gateway with an address that nobody else can open is given up for the next one, and told to end the link.
func TestOpen(t *testing.T) {
	t.Parallel()
	g := &gateways{urls: map[peer.ID]string{
		"none": "http://169.254.1.1/s/x/", "none6": "http://[fe80::1]:80/s/x/", "self": "http://127.0.0.1/s/x/",
		"bad": "javascript:alert(1)", "good": "http://20.0.0.1:8080/s/x/", "lan": "http://192.168.0.1/s/x/",
	}}
	for _, c := range []struct {
		peers []peer.ID
		want  string
		ended int
	}{
		{nil, "", 0}, {[]peer.ID{"none"}, "", 1}, {[]peer.ID{"none6", "bad", "self"}, "", 2},
		{[]peer.ID{"bad", "none", "good", "lan"}, g.urls["good"], 1}, {[]peer.ID{"lan"}, g.urls["lan"], 0},
	} {
		g.ended = nil
		h, err := open(t.Context(), links.NewClient(g), c.peers, links.Offer{})
		if err != nil != (c.want == "") || err == nil && h.URL != c.want || len(g.ended) != c.ended {
			t.Errorf("%s: %+v, %v; ended %s", c.peers, h, err, g.ended)
		}
		if err != nil && len(c.peers) > 0 && status.Of(err) != status.Upstream {
			t.Errorf("%s: %v", c.peers, err)
		}
	}
}

// TestOfferOf: an end in whole seconds is not before the one that was asked for, so that a short link works at all.
func TestOfferOf(t *testing.T) {
	t.Parallel()
	second := time.Unix(1767366245, 0).UTC()
	for after, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Second, time.Second - 1: time.Second, time.Second: time.Second,
	} {
		if got := offerOf(weblink.Options{NotAfter: second.Add(after)}); !got.NotAfter.Equal(second.Add(want)) {
			t.Errorf("%s: %s", after, got.NotAfter)
		}
	}
	if got := offerOf(weblink.Options{}); !got.NotAfter.IsZero() {
		t.Errorf("without an end: %s", got.NotAfter)
	}
}
