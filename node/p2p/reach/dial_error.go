package reach

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/sec"

	"allium/internal/lazyregexp"
	"allium/protocols/status"
)

// mismatch finds the peer that answered, in the text of sec.ErrPeerIDMismatch.
var mismatch = lazyregexp.New(`peer id mismatch: expected \w+, but remote key matches (\w+)`)

// DialError returns why a peer was not reached, in words, and what to do.
func DialError(id peer.ID, err error) error {
	other := answering(err)
	switch {
	case other != "":
		return &status.Error{Outcome: status.TransportDown, Err: err, Message: fmt.Sprintf(
			"%s is not at that address: %s answers there; check the id after /p2p/", id, other)}
	case AboutClock(err):
		return status.Errorf(status.TransportDown,
			"%s cannot be reached: its certificate is not valid by this machine's clock: %w; set the clocks of both",
			id, err)
	case strings.Contains(err.Error(), "gater disallows connection"):
		return status.Errorf(status.Denied,
			"%s is denied: this node's operator does not let it connect; see the files of "+
				"listen.deny and listen.allow", id)
	case strings.Contains(err.Error(), "failed to negotiate security protocol"):
		return &status.Error{Outcome: status.TransportDown, Err: err, Message: fmt.Sprintf(
			"%s answers, and the two nodes do not understand each other (%s); if one of them is in a private network, "+
				"both need its key: compare what `allium swarm-key show` prints on each", id, DialReasons(err))}
	}
	return &status.Error{Outcome: status.TransportDown, Err: err, Message: fmt.Sprintf(
		"%s cannot be reached (%s); check that it runs and listens there", id, DialReasons(err))}
}

// answering returns the peer that answered in place of the one that was dialled, "" if none did.
func answering(err error) string {
	var other sec.ErrPeerIDMismatch
	if errors.As(err, &other) {
		return other.Actual.String()
	}
	if found := mismatch().FindStringSubmatch(err.Error()); found != nil { // QUIC and TLS wrap it as text
		return found[1]
	}
	return ""
}

// AboutClock reports whether a certificate was refused for its time. A remote peer
// reports only a bad certificate. In a libp2p certificate that can only be the time,
// because any other fault shows in the keys.
func AboutClock(err error) bool {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return true
	}
	text := err.Error()
	for _, words := range []string{
		"not yet valid", "certificate has expired", "tls: bad certificate", "tls: expired certificate",
	} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
