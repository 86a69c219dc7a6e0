package links

import (
	"context"
	"encoding/json"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/oap"
	"allium/protocols/session"
	"allium/protocols/status"
)

const (
	callTimeout = 5 * time.Second
	renewEvery  = 5 * time.Second
	// patience bounds the time for which a link is renewed in vain, after which Follow gives it up. It is below lease.
	patience = 40 * time.Second
)

// Caller is the part of [session.Service] that a [Client] uses.
type Caller interface {
	Call(ctx context.Context, p peer.ID, proto uint16, payload []byte) ([]byte, error)
}

var _ Caller = (*session.Service)(nil)

// Client opens links on the gateways of peers. It is safe for concurrent use.
type Client struct{ call Caller }

// NewClient returns a Client.
func NewClient(call Caller) *Client { return &Client{call} }

// Held is a link on the gateway of a peer.
type Held struct {
	URL  string
	Peer peer.ID
	id   string
}

// Open has the gateway of p show an object that this node has. Errors are those of p and of
// [session.Service.Call]; unsupported says that p shows no links of peers.
func (c *Client) Open(ctx context.Context, p peer.ID, o Offer) (Held, error) {
	var got opened
	err := c.ask(ctx, p, struct {
		Op string `json:"op"`
		openFields
	}{opOpen, o.fields()}, &got)
	switch status.Of(err) {
	case status.OK:
		return Held{got.URL, p, got.ID}, got.check()
	case status.Unsupported, status.BadFrame: // unknown_proto, of a node without the protocol
		return Held{}, status.Errorf(status.Unsupported, "%s shows no links of peers: %w", p, err)
	}
	return Held{}, err
}

// Follow keeps a link until ctx ends, and then ends it. It calls event for what happens, whose error ends the link too.
// It returns nil when ctx ended, or the link because it expired or its last download is whole; not_found when the peer
// has forgotten the link, or the last error of the peer when it has not answered for 40 s.
func (c *Client) Follow(ctx context.Context, h Held, event func(Event) error) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	answered := time.Now()
	for {
		select {
		case <-ctx.Done():
			c.End(ctx, h)
			return nil
		case <-tick.C:
		}
		got, err := c.renew(ctx, h, opRenew)
		switch {
		case err == nil:
			answered = time.Now()
		case ctx.Err() != nil:
			continue
		case status.Of(err) == status.NotFound:
			return status.Errorf(status.NotFound, "the peer no longer has the link: it has started anew, or could not "+
				"be reached for too long; share again")
		case time.Since(answered) >= patience:
			return err
		}
		for _, e := range got.Events {
			if err := event(e); err != nil {
				c.End(ctx, h)
				return err
			}
		}
		if got.Ended {
			c.End(ctx, h)
			return nil
		}
	}
}

// End ends a link, also when ctx has ended. A peer that cannot be told within 5 s ends it with its lease.
func (c *Client) End(ctx context.Context, h Held) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	_, _ = c.renew(ctx, h, opClose)
}

func (c *Client) renew(ctx context.Context, h Held, op string) (got news, err error) {
	err = c.ask(ctx, h.Peer, struct {
		Op string `json:"op"`
		linkFields
	}{op, linkFields{h.id}}, &got)
	if err == nil && len(got.Events) > MaxEvents {
		err = status.Errorf(status.Upstream, "the peer's answer has %d events, at most %d", len(got.Events), MaxEvents)
	}
	return got, err
}

// ask sends a request and decodes the answer. It ignores unknown members of the answer.
func (c *Client) ask(ctx context.Context, p peer.ID, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	payload, err := json.Marshal(question)
	if err != nil {
		return err
	}
	reply, err := c.call.Call(ctx, p, oap.ProtoLinks, payload)
	if err != nil {
		return err
	}
	if err := oap.DecodeJSON(reply, answer, true); err != nil {
		return status.Errorf(status.Upstream, "the peer's answer is malformed: %w", err)
	}
	return nil
}
