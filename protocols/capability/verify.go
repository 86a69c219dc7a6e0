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

// clockSlack is how far the clocks of two nodes of one ring may differ.
const clockSlack = 5 * time.Minute

// Verifier decides what capabilities allow on one node. It is safe for
// concurrent use.
type Verifier struct {
	self  string
	now   func() time.Time
	rates *rates
	state atomic.Pointer[state]
}

// state is what is known of keys and capabilities, swapped as a whole.
type state struct {
	ring    Ring
	revoked Revocations
}

// NewVerifier returns a verifier of the node with that peer id, without a key.
// A nil clock is time.Now.
func NewVerifier(self string, now func() time.Time, registry *limits.Registry) *Verifier {
	if now == nil {
		now = time.Now
	}
	v := &Verifier{self: self, now: now, rates: newRates(registry)}
	v.state.Store(&state{})
	return v
}

// Set replaces the keys and what is revoked, for all requests from now on.
func (v *Verifier) Set(r Ring, revoked Revocations) { v.state.Store(&state{r, revoked}) }

// Verify returns what a token leaves its bearer of what is asked. Errors are
// unauthenticated, forbidden or rate_limit; their Detail is a [Refusal].
func (v *Verifier) Verify(token string, ask Ask) (Grant, error) {
	t, err := decode(token)
	if err != nil {
		return Grant{}, err
	}
	st := v.state.Load()
	if len(st.ring.keys) == 0 {
		return Grant{}, unauthenticated(UnknownKey, "this node has no root key, so it takes no capability; `allium token mint` makes one")
	}
	caveats, err := st.ring.verify(t)
	if err != nil {
		return Grant{}, err
	}
	now := v.now()
	if t.issued > now.Add(clockSlack).Unix() {
		return Grant{}, unauthenticated(Future, "the capability was minted at %s, which is later than now; set the clocks", time.Unix(t.issued, 0).UTC().Format(time.RFC3339))
	}
	if st.revoked.has(t.identity) {
		return Grant{}, unauthenticated(Revoked, "the capability %s is revoked; ask for a new one", t.nonce)
	}
	g := Grant{ID: t.nonce.String(), KeyID: t.kid, MaxBytes: -1}
	branches := t.branches()
	if i := slices.IndexFunc(branches, st.revoked.hasBranch); i >= 0 {
		return Grant{}, unauthenticated(Revoked, "the branch %s of the capability %s is revoked; ask for a new one", branches[i], t.nonce)
	}
	if n := len(branches); n > 0 {
		g.Branch = branches[n-1].String()
	}
	paced := false
	for _, s := range caveats {
		c, err := parseCaveat(s)
		if err != nil {
			return Grant{}, forbidden(UnknownCaveat, "the capability has a caveat that this node does not know, %q: %w", clip(s), err)
		}
		if err := v.holds(c, now, ask, &g); err != nil {
			return Grant{}, err
		}
		paced = paced || c.kind == KindRate
	}
	if g.Expires.IsZero() {
		return Grant{}, forbidden(NoExpiry, "the capability has no expiry; add one with `allium token attenuate --expires`")
	}
	if paced && !ask.Again {
		if err := v.pace(now, t.nonce, caveats); err != nil {
			return Grant{}, err
		}
	}
	return g, nil
}

// holds checks one caveat and notes in g what it leaves.
func (v *Verifier) holds(c Caveat, now time.Time, ask Ask, g *Grant) error {
	switch c.kind {
	case KindOp:
		if !listed(c.text, string(ask.Op)) {
			return forbidden(WrongOp, "the capability allows %s, not %s", c.text, ask.Op)
		}
	case KindMethod:
		if !listed(c.text, ask.Method) {
			return forbidden(WrongMethod, "the capability allows the methods %s, not %s", c.text, clip(ask.Method))
		}
	case KindObject:
		if ask.Later {
			break
		}
		if ask.Object.IsZero() {
			return forbidden(WrongObject, "the capability is for objects that begin with %s, and this request names none", c.text)
		}
		if !strings.HasPrefix(ask.Object.String(), c.text) {
			return forbidden(WrongObject, "the capability is for objects that begin with %s, not for %s", c.text, ask.Object)
		}
		// A whole address settles what it leads to. Below the beginning of one
		// there may be anything: whoever looks for it finds such a directory.
		if ask.Below && len(c.text) < wholeAddress {
			return forbidden(WrongObject, "the capability is for objects that begin with %s, and what %s leads to may begin with anything; this needs one that names the whole address", c.text, ask.Object)
		}
	case KindName:
		if ask.Name == "" || !strings.HasPrefix(ask.Name, c.text) {
			return forbidden(WrongName, "the capability is for names that begin with %q, not for %q", c.text, clip(ask.Name))
		}
	case KindBytes:
		if ask.Bytes > c.n {
			return forbidden(TooManyBytes, "the capability allows %d bytes in one request, not %d", c.n, ask.Bytes)
		}
		if g.MaxBytes < 0 || c.n < g.MaxBytes {
			g.MaxBytes = c.n
		}
	case KindExpiry:
		if now.Unix() >= c.n {
			return unauthenticated(Expired, "the capability expired at %s; ask for a new one", c.time().Format(time.RFC3339))
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
			return forbidden(WrongLabel, "the capability is bound to the labels %q and %q at once, so it allows nothing", g.Label, c.text)
		}
		if ask.Label != "" && ask.Label != c.text {
			return forbidden(WrongLabel, "the capability is for pins with the label %q, not %q; ask for that label, or for none and get it", c.text, clip(ask.Label))
		}
		g.Label = c.text
	case KindRate: // last of all, in pace: a request that is refused takes nothing
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

// pace takes the request from the bucket of each caveat on the rate, the
// minter's first, so that whoever narrows a capability cannot widen its rate.
func (v *Verifier) pace(now time.Time, id nonce, caveats []string) error {
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

// RefusalOf is why Verify refused, as a label; "ok" when it did not.
func RefusalOf(err error) string {
	if err == nil {
		return "ok"
	}
	return status.ReportOf(err).Detail
}
