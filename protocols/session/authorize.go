package session

import (
	"context"
	"fmt"

	"allium/protocols/capability"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Capabilities verifies the capabilities that peers show with requests (OAP1 §7).
type Capabilities interface {
	// Verify returns what a token grants for a request, or why not. It may wait for a
	// second while this node reads its keys again, and returns when ctx ends. Errors are
	// unauthenticated, forbidden and rate_limit.
	Verify(ctx context.Context, token string, ask capability.Request) (capability.Grant, error)
}

// Ask says what a request does, for the caveats of the capability it shows. It runs on
// the session's reader before the request is queued, and must not block. Its error
// refuses the request.
type Ask func(*Request) (capability.Request, error)

// Authorize says what the requests of an application protocol do, so that capabilities
// can be verified for them. Requests of other protocols are refused if they show one.
// Call it before Run. It panics for a second Ask of one protocol.
func (s *Service) Authorize(proto uint16, ask Ask) {
	if proto == oap.ProtoControl || s.asks[proto] != nil || ask == nil {
		panic(fmt.Sprintf("bad authorization of app_proto_id %d", proto))
	}
	s.asks[proto] = ask
}

// authorize verifies the capability of a request, if it shows one, and sets req.Grant.
// The session is not read meanwhile, so a peer that shows tokens with unknown keys
// delays only itself.
func (l *link) authorize(proto uint16, token []byte, req *Request) error {
	if len(token) == 0 {
		return nil
	}
	ask := l.svc.asks[proto]
	if ask == nil || l.svc.capabilities == nil {
		return status.Errorf(status.Unauthenticated,
			"this node verifies no capabilities for app_proto_id %d; ask without one", proto)
	}
	does, err := ask(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.dead, req.budget(l.cfg.RequestTimeout))
	defer cancel()
	grant, err := l.svc.capabilities.Verify(ctx, capability.Text(token), does)
	if err != nil {
		return err
	}
	req.Grant = &grant
	return nil
}
