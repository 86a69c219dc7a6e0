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

// Attempts records how the request to each provider of one object ended, for the
// error that counts them. The zero value is empty. It is not for concurrent use.
type Attempts struct {
	last map[peer.ID]error
}

// Note records err as p's outcome. breaker_open does not replace an earlier
// outcome, which is what opened the breaker.
func (t *Attempts) Note(p peer.ID, err error) {
	if t.last == nil {
		t.last = map[peer.ID]error{}
	}
	if t.last[p] == nil || status.Of(err) != status.BreakerOpen {
		t.last[p] = err
	}
}

// MayReturn reports whether one of the peers may succeed within a minute.
func (t *Attempts) MayReturn() bool {
	for _, err := range t.last {
		if o, _ := outcomeOf(err); mayReturn(o, err) {
			return true
		}
	}
	return false
}

// bySeverity orders outcomes from the most to the least important for a caller.
// One provider that sent bad bytes matters more than ten that were not reached.
var bySeverity = []status.Outcome{
	status.Corrupt, status.Denied, status.Upstream, status.TransportDown, status.Timeout,
	status.Busy, status.BreakerOpen, status.NotFound,
}

// severity returns the outcome's position in bySeverity. An outcome that is not
// listed counts as upstream.
func severity(o status.Outcome) int {
	upstream := 0
	for i, t := range bySeverity {
		if t == o {
			return i
		}
		if t == status.Upstream {
			upstream = i
		}
	}
	return upstream
}

// advice says what the caller can do about an outcome.
var advice = map[status.Outcome]string{
	status.Corrupt:     "their bytes do not match the address; connect to another peer that has it",
	status.Upstream:    "the failure is theirs; try again later, or connect to another peer that has it",
	status.NotFound:    "connect to a peer that has it, or try again later",
	status.Timeout:     "try again, or connect to a peer that has it",
	status.BreakerOpen: "they failed too often just now; try again in a few seconds",
	status.Busy:        "try again in a moment",
}

// remoteFailures are outcomes that would mislead when a provider's answer is
// passed on: a caller would take them for a failure of this node. They become
// upstream.
var remoteFailures = map[status.Outcome]bool{
	status.Corrupt:       true,
	status.Upstream:      true,
	status.Internal:      true,
	status.EtagInvalid:   true,
	status.BadDigest:     true,
	status.NoSpace:       true,
	status.Amnesia:       true,
	status.NotReady:      true,
	status.NoBootstrap:   true,
	status.TransportDown: true,
	status.BreakerOpen:   true,
}

// outcomeOf returns the outcome of an attempt. When the provider itself answered
// that it failed, the outcome is upstream and remote is true.
func outcomeOf(err error) (o status.Outcome, remote bool) {
	o = status.Of(err)
	var t *oap.Told
	if remote = errors.As(err, &t) && remoteFailures[o]; remote {
		o = status.Upstream
	}
	return o, remote
}

// describe says how an attempt ended and, if so, that the provider said it.
func describe(err error) string {
	if _, remote := outcomeOf(err); remote {
		return fmt.Sprintf("the provider answered %s: %v", status.Of(err), err)
	}
	return err.Error()
}

// Error returns the error of a fetch of root: "b3:…: 3 providers tried: 1
// corrupt, 2 timeout". lookup is the error of the provider lookup, or nil.
func (t *Attempts) Error(root b3.Root, lookupID string, lookup error) error {
	if len(t.last) == 0 {
		e := &status.Error{Outcome: status.NotFound, LookupID: lookupID, Err: lookup}
		why := "no provider found"
		if lookup != nil {
			e.Outcome, why = status.Of(lookup), lookup.Error()
			if s, ok := errors.AsType[*status.Error](lookup); ok {
				why = s.Message
			}
		}
		e.Message = fmt.Sprintf("%s: %s%s", root, why, advise(e.Outcome))
		return e
	}
	counts := map[status.Outcome]int{}
	worst, cause := status.NotFound, error(nil)
	for _, err := range t.last {
		o, _ := outcomeOf(err)
		counts[o]++
		if cause == nil || severity(o) < severity(worst) {
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
		Message: fmt.Sprintf("%s: %d %s tried: %s%s (%s)",
			root, len(t.last), noun, strings.Join(parts, ", "), advise(worst), describe(cause)),
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
