package reach

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
)

// maxReasons bounds the addresses in the message of a failed dial.
const maxReasons = 4

// DialReasons returns what became of each address of a failed dial, on one line. For an error that is no failed
// dial it returns its text.
func DialReasons(err error) string {
	var dial *swarm.DialError
	if !errors.As(err, &dial) || len(dial.DialErrors) == 0 {
		return dialReason(err)
	}
	var all []string
	for i := range dial.DialErrors {
		if one := &dial.DialErrors[i]; i < maxReasons {
			all = append(all, fmt.Sprintf("%s: %s", one.Address, dialReason(one.Cause)))
		}
	}
	if more := len(dial.DialErrors) + dial.Skipped - len(all); more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}

// dialReason returns why one address did not answer, in a few words.
func dialReason(err error) string {
	var number syscall.Errno
	switch {
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return "no answer"
	case errors.As(err, &number):
		return number.Error()
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// ForgetBackoff lets the next dial of a peer begin at once. The library refuses dials for 5 s and more after one
// failed, and does not say then why that one did.
func ForgetBackoff(h host.Host, id peer.ID) {
	if s, ok := h.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(id)
	}
}
