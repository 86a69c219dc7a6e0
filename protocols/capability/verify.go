package capability

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"allium/internal/limits"
	"allium/protocols/status"
)

// clockSlack is the maximum difference between the clocks of two nodes with the same ring.
const clockSlack = 5 * time.Minute

// Verifier decides what capabilities allow on one node. It is safe for concurrent
// use.
type Verifier struct {
	self  string
	now   func() time.Time
	rates *rates
	state atomic.Pointer[state]
}

// state is the key ring and the revocations. [Verifier.Set] replaces both at once.
type state struct {
	ring    Ring
	revoked Revocations
}

// NewVerifier returns a Verifier without keys for the node with peer id self. A nil
// now means time.Now.
func NewVerifier(self string, now func() time.Time, registry *limits.Registry) *Verifier {
	if now == nil {
		now = time.Now
	}
	v := &Verifier{self: self, now: now, rates: newRates(registry)}
	v.state.Store(&state{})
	return v
}

// Set replaces the keys and the revocations for all later calls of Verify.
func (v *Verifier) Set(r Ring, revoked Revocations) { v.state.Store(&state{r, revoked}) }

// Verify returns what a token grants for the request, or why it does not allow the
// request. Errors are unauthenticated, forbidden or rate_limit; their Detail is a
// [Refusal].
func (v *Verifier) Verify(token string, r Request) (Grant, error) {
	t, err := decode(token)
	if err != nil {
		return Grant{}, err
	}
	st := v.state.Load()
	if len(st.ring.keys) == 0 {
		return Grant{}, unauthenticated(UnknownKey,
			"this node has no root key, so it accepts no capability; `allium token mint` makes a key")
	}
	caveats, err := st.ring.verify(t)
	if err != nil {
		return Grant{}, err
	}
	now := v.now()
	if t.issued > now.Add(clockSlack).Unix() {
		return Grant{}, unauthenticated(Future,
			"the capability was minted at %s, which is later than now; set the clocks",
			time.Unix(t.issued, 0).UTC().Format(time.RFC3339))
	}
	if st.revoked.has(t.identity) {
		return Grant{}, unauthenticated(Revoked, "the capability %s is revoked; ask for a new one", t.nonce)
	}
	g := Grant{ID: t.nonce.String(), KeyID: t.kid, MaxBytes: -1}
	branches := t.branches()
	if i := slices.IndexFunc(branches, st.revoked.hasBranch); i >= 0 {
		return Grant{}, unauthenticated(Revoked, "the branch %s of the capability %s is revoked; ask for a new one",
			branches[i], t.nonce)
	}
	if n := len(branches); n > 0 {
		g.Branch = branches[n-1].String()
	}
	var audience, hasRate bool
	for _, s := range caveats {
		c, err := parseCaveat(s)
		if err != nil {
			return Grant{}, forbidden(UnknownCaveat, "the capability has a caveat that this node does not know, %q: %w",
				clip(s), err)
		}
		if err := v.checkCaveat(c, now, r, &g); err != nil {
			return Grant{}, err
		}
		hasRate = hasRate || c.kind == KindRate
		audience = audience || c.kind == KindNode
	}
	if g.Expires.IsZero() {
		return Grant{}, forbidden(NoExpiry,
			"the capability has no expiry; add one with `allium token attenuate --expires`")
	}
	if r.Op == Replicate {
		if err := checkReplicate(caveats[0], audience, g.Expires.Sub(now)); err != nil {
			return Grant{}, err
		}
	}
	if hasRate && !r.RateTaken {
		if err := v.takeRates(now, t.nonce, caveats); err != nil {
			return Grant{}, err
		}
	}
	return g, nil
}

// checkReplicate returns an error unless a capability is narrow enough for [Replicate]. A
// bearer can only append caveats, so the first one is from the node that minted it.
func checkReplicate(first string, audience bool, left time.Duration) error {
	switch {
	case first != "op in "+string(Replicate):
		return forbidden(WrongOp, "the capability was not minted for the operation %s alone", Replicate)
	case !audience:
		return forbidden(WrongNode, "the capability is for no node in particular; one for %s must be", Replicate)
	case left > ReplicateLife+clockSlack:
		return forbidden(TooLong, "the capability is valid for %s; one for %s may be for %s at most",
			left.Round(time.Second), Replicate, ReplicateLife)
	}
	return nil
}

// checkCaveat checks one caveat against the request and narrows g by it. It does not
// check rate caveats.
func (v *Verifier) checkCaveat(c Caveat, now time.Time, r Request, g *Grant) error {
	switch c.kind {
	case KindOp:
		if !listed(c.text, string(r.Op)) {
			return forbidden(WrongOp, "the capability allows %s, not %s", c.text, r.Op)
		}
	case KindMethod:
		if !listed(c.text, r.Method) {
			return forbidden(WrongMethod, "the capability allows the methods %s, not %s", c.text, clip(r.Method))
		}
	case KindObject:
		if r.ObjectLater {
			break
		}
		if r.Object.IsZero() {
			return forbidden(WrongObject,
				"the capability is for objects that begin with %s, and this request names none",
				c.text)
		}
		if !strings.HasPrefix(r.Object.String(), c.text) {
			return forbidden(WrongObject, "the capability is for objects that begin with %s, not for %s",
				c.text, r.Object)
		}
		// A whole address determines everything below it. A prefix does not: anyone
		// can construct a directory that matches a prefix and contains any object.
		if r.Recursive && len(c.text) < addressLen {
			return forbidden(WrongObject, "the capability is for objects that begin with %s, and the objects below %s "+
				"may begin with anything; this request needs a capability that names the whole address",
				c.text, r.Object)
		}
	case KindName:
		if r.NameLater {
			break
		}
		if r.Name == "" || !strings.HasPrefix(r.Name, c.text) {
			return forbidden(WrongName, "the capability is for names that begin with %q, not for %q",
				c.text, clip(r.Name))
		}
	case KindBytes:
		if r.Bytes > c.n {
			return forbidden(TooManyBytes, "the capability allows %d bytes in one request, not %d", c.n, r.Bytes)
		}
		if g.MaxBytes < 0 || c.n < g.MaxBytes {
			g.MaxBytes = c.n
		}
	case KindExpiry:
		if now.Unix() >= c.n {
			return unauthenticated(Expired, "the capability expired at %s; ask for a new one",
				c.time().Format(time.RFC3339))
		}
		if g.Expires.IsZero() || c.time().Before(g.Expires) {
			g.Expires = c.time()
		}
	case KindNode:
		if c.text != v.self {
			return forbidden(WrongNode, "the capability is for the node %s; this is %s", c.text, v.self)
		}
	case KindLabel:
		if g.Label != "" && g.Label != c.text {
			return forbidden(WrongLabel,
				"the capability is bound to the labels %q and %q at once, so it allows nothing",
				g.Label, c.text)
		}
		if r.Label != "" && r.Label != c.text {
			return forbidden(WrongLabel, "the capability is for pins with the label %q, not %q; "+
				"leave the label out or use that one", c.text, clip(r.Label))
		}
		g.Label = c.text
	case KindRate: // takeRates checks it last, so that a rejected request takes nothing
	}
	return nil
}

// listed reports whether a word is in a list.
func listed(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// takeRates takes the request from the bucket of each rate caveat, the minter's
// first. An additional rate caveat therefore cannot raise the rate.
func (v *Verifier) takeRates(now time.Time, id nonce, caveats []string) error {
	var path maphash.Hash
	path.SetSeed(v.rates.seed)
	for _, s := range caveats {
		_, _ = path.WriteString(s) // never fails
		_ = path.WriteByte(0)      // never fails
		if c, err := parseCaveat(s); err == nil && c.kind == KindRate {
			if err := v.rates.take(now, bucketKey{id: id, path: path.Sum64(), rate: c.n}); err != nil {
				return err
			}
		}
	}
	return nil
}

// RefusalOf returns the [Refusal] of an error of Verify as a metric label, and "ok"
// for nil.
func RefusalOf(err error) string {
	if err == nil {
		return "ok"
	}
	return status.ReportOf(err).Detail
}
