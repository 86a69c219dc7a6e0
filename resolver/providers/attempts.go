package providers

import (
	"errors"
	"fmt"
	"strings"

	"github.com/libp2p/go-libp2p/core/peer"

	"allium/protocols/b3"
	"allium/protocols/oap"
	"allium/protocols/status"
)

// Attempts remembers how each provider of one object did, for the error that
// names them all. The zero value is empty. It is for one goroutine.
type Attempts struct {
	last map[peer.ID]error
}

// Note keeps err as p's outcome. That a breaker opened says less than what
// opened it.
func (t *Attempts) Note(p peer.ID, err error) {
	if t.last == nil {
		t.last = map[peer.ID]error{}
	}
	if t.last[p] == nil || status.Of(err) != status.BreakerOpen {
		t.last[p] = err
	}
}

// telling ranks the outcomes by how much they say about the object: one
// provider's bad bytes matter more than ten that were not reached.
var telling = []status.Outcome{
	status.Corrupt, status.Denied, status.Upstream, status.TransportDown, status.Timeout,
	status.Busy, status.BreakerOpen, status.NotFound,
}

// rank is the outcome's place in telling; those not listed count as upstream.
func rank(o status.Outcome) int {
	upstream := 0
	for i, t := range telling {
		if t == o {
			return i
		}
		if t == status.Upstream {
			upstream = i
		}
	}
	return upstream
}

// advice ends the sentence: what the caller can do.
var advice = map[status.Outcome]string{
	status.Corrupt:     "their bytes do not match the address; ask someone else to provide it",
	status.Upstream:    "the failure is theirs; try again later, or connect to another peer that has it",
	status.NotFound:    "connect to a peer that has it, or try again later",
	status.Timeout:     "try again, or connect to a peer that has it",
	status.BreakerOpen: "they failed too often just now; try again in a few seconds",
	status.Busy:        "try again in a moment",
}

// toldUpstream are the outcomes that a provider can tell of and that would be
// taken for this node's own: it failed, and nothing of it was seen here.
var toldUpstream = map[status.Outcome]bool{
	status.Corrupt: true, status.Upstream: true, status.Internal: true, status.EtagInvalid: true, status.BadDigest: true,
	status.NoSpace: true, status.Amnesia: true, status.NotReady: true, status.NoBootstrap: true, status.TransportDown: true, status.BreakerOpen: true,
}

// outcomeOf is what an attempt came to: upstream where the provider itself said
// that it could not, whatever it called that.
func outcomeOf(err error) (o status.Outcome, told bool) {
	o = status.Of(err)
	var t *oap.Told
	if told = errors.As(err, &t) && toldUpstream[o]; told {
		o = status.Upstream
	}
	return o, told
}

// said is how an attempt ended, and who says so.
func said(err error) string {
	if _, told := outcomeOf(err); told {
		return fmt.Sprintf("the provider answered %s: %v", status.Of(err), err)
	}
	return err.Error()
}

// Error says what became of root: "b3:…: 3 providers tried: 1 corrupt, 2
// timeout". lookup is why looking for providers failed, if it did.
func (t *Attempts) Error(root b3.Root, lookupID string, lookup error) error {
	if len(t.last) == 0 {
		e := &status.Error{Outcome: status.NotFound, LookupID: lookupID, Err: lookup}
		why := "no provider found"
		if lookup != nil {
			e.Outcome, why = status.Of(lookup), lookup.Error()
		}
		e.Message = fmt.Sprintf("resolver: %s: %s%s", root, why, advise(e.Outcome))
		return e
	}
	counts := map[status.Outcome]int{}
	worst, cause := status.NotFound, error(nil)
	for _, err := range t.last {
		o, _ := outcomeOf(err)
		counts[o]++
		if cause == nil || rank(o) < rank(worst) {
			worst, cause = o, err
		}
	}
	var parts []string
	for _, o := range status.All() {
		if counts[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[o], o))
		}
	}
	noun := "providers"
	if len(t.last) == 1 {
		noun = "provider"
	}
	return &status.Error{
		Outcome: worst,
		Message: fmt.Sprintf("resolver: %s: %d %s tried: %s%s (%s)",
			root, len(t.last), noun, strings.Join(parts, ", "), advise(worst), said(cause)),
		LookupID: lookupID,
		Err:      cause,
	}
}

func advise(o status.Outcome) string {
	if a := advice[o]; a != "" {
		return "; " + a
	}
	return ""
}
