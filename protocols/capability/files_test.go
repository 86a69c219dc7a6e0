package capability

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"allium/protocols/status"
)

// TestRingText: a ring is read as it was written, and what is wrong with one is
// told by its line, without what is in it.
func TestRingText(t *testing.T) {
	t.Parallel()
	r, err := newRing(t).Rotate(start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	good := r.Text()
	again, err := ParseRing(good)
	if err != nil || !bytes.Equal(again.Text(), good) || len(again.keys) != 2 {
		t.Fatalf("%v, %v", again, err)
	}
	lines := strings.SplitAfter(string(good), "\n")
	head, one, two := ringHead+"1\n", lines[2], lines[3]
	secret := strings.Fields(one)[2]
	for name, c := range map[string]struct{ text, want string }{
		"empty":          {"", "empty"},
		"no head":        {one, "first line"},
		"another":        {"allium-capability-keys/3\n" + one, "first line"},
		"no key":         {head, "no key"},
		"out of order":   {head + two + one, "line 3"},
		"twice":          {head + one + one, "line 3"},
		"key 0":          {head + "0" + one[1:], "line 2"},
		"key 2^32":       {head + "4294967296" + one[1:], "line 2"},
		"no number":      {head + "x" + one[1:], "line 2"},
		"no time":        {head + "1 now " + secret, "line 2"},
		"short key":      {head + strings.Replace(one, secret, secret[1:], 1), "line 2"},
		"padded key":     {head + strings.Replace(one, secret, secret+"=", 1), "line 2"},
		"cut":            {head + one[:20], "line 2"},
		"another column": {head + strings.TrimSpace(one) + " x\n", "line 2"},
		"too long":       {head + strings.Repeat("#\n", MaxRing), "bytes"},
	} {
		_, err := ParseRing([]byte(c.text))
		if status.Of(err) != status.Corrupt || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret[2:12]) {
			t.Errorf("%s: the error has the key: %v", name, err)
		}
	}
	if r, err := ParseRing([]byte(head + "\n# mine\n  " + one)); err != nil || len(r.keys) != 1 {
		t.Errorf("spaces and comments: %v, %v", r, err)
	}
}

// TestFileDamage flips every bit of both files, replaces every byte, and cuts
// them anywhere: each is refused, or changes nothing of what they say.
func TestFileDamage(t *testing.T) {
	t.Parallel()
	ring, err := newRing(t).Rotate(start.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ring = ring.Revoking()
	list := Revocations{}
	for _, add := range []Revocation{{id: nonce{1}, until: start.Add(time.Hour).Unix()}, RevokeKey(7),
		{id: nonce{3}, branch: true, until: forever}} {
		if list, err = list.Revoke(start, add); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		whole []byte
		again func([]byte) ([]byte, error)
	}{
		"ring": {ring.Text(), func(p []byte) ([]byte, error) { r, err := ParseRing(p); return r.Text(), err }},
		"revoked": {list.Text(),
			func(p []byte) ([]byte, error) { r, err := ParseRevocations(p); return r.Text(), err }},
	} {
		if again, err := c.again(c.whole); err != nil || !bytes.Equal(again, c.whole) {
			t.Fatalf("%s: %q, %v", name, again, err)
		}
		taken := 0
		try := func(what string, at int, p []byte) {
			t.Helper()
			again, err := c.again(p)
			switch {
			case err != nil && status.Of(err) != status.Corrupt:
				t.Errorf("%s: %s %d: %v", name, what, at, err)
			case err == nil && !bytes.Equal(again, c.whole):
				t.Errorf("%s: %s %d is taken, and says something else", name, what, at)
			case err == nil:
				taken++
			}
		}
		for at := range c.whole {
			for bit := range 8 {
				p := bytes.Clone(c.whole)
				p[at] ^= 1 << bit
				try("bit of byte", at, p)
			}
			for _, other := range []byte{0, '\n', ' ', '#', '1'} {
				p := bytes.Clone(c.whole)
				if p[at] != other {
					p[at] = other
					try("another byte", at, p)
				}
			}
			try("cut", at, c.whole[:at])
		}
		if taken > 2 { // the version alone
			t.Errorf("%s: %d changes are taken", name, taken)
		}
	}
}

// TestRevocationsText: the same for what is revoked; and its bound.
func TestRevocationsText(t *testing.T) {
	t.Parallel()
	list := Revocations{}
	for _, add := range []Revocation{{id: nonce{1}, until: start.Add(time.Hour).Unix()}, {id: nonce{2}, until: forever},
		RevokeKey(7), {id: nonce{3}, branch: true, until: forever}} {
		var err error
		if list, err = list.Revoke(start, add); err != nil {
			t.Fatal(err)
		}
	}
	good := list.Text()
	again, err := ParseRevocations(good)
	if err != nil || !bytes.Equal(again.Text(), good) || again.Len() != 4 || again.has(identity{nonce: nonce{3}}) ||
		!again.hasBranch(nonce{3}) || again.hasBranch(nonce{2}) || !again.has(identity{nonce: nonce{2}}) ||
		!again.has(identity{kid: 7}) || again.has(identity{kid: 8}) {
		t.Fatalf("%s, %v", again.Text(), err)
	}
	head := revokedHead + "1\n"
	id := strings.Repeat("ab", nonceSize)
	for name, text := range map[string]string{
		"empty": "", "another head": "x\n", "no time": head + "id " + id,
		"short id":     head + "id " + id[2:] + " forever",
		"capitals":     head + "id " + strings.ToUpper(id) + " forever",
		"no hex":       head + "id " + strings.Repeat("xy", nonceSize) + " forever",
		"short branch": head + "branch " + id[2:] + " forever", "another kind": head + "name " + id + " forever",
		"no number": head + "key x forever", "key 0": head + "key 0 forever",
		"another time": head + "key 1 tomorrow", "too many": head + manyIDs(maxRevoked+1),
		"too long": head + strings.Repeat("#\n", MaxRevoked),
	} {
		if _, err := ParseRevocations([]byte(text)); status.Of(err) != status.Corrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	full, err := ParseRevocations([]byte(head + manyIDs(maxRevoked)))
	if err != nil {
		t.Fatal(err)
	}
	if text := full.Text(); len(text) > MaxRevoked {
		t.Errorf("a full list has %d bytes, at most %d are read", len(text), MaxRevoked)
	}
	if _, err := full.Revoke(start, RevokeKey(1)); status.Of(err) != status.Conflict {
		t.Errorf("%v", err)
	}
	if again, err := full.Revoke(start, Revocation{id: nonce{0, 0, 0, 1}, until: forever}); err != nil ||
		again.Len() != maxRevoked {
		t.Errorf("what is in it already: %v", err)
	}
	for _, bad := range []string{"", id[1:], strings.ToUpper(id), id + "00"} {
		for _, by := range []func(string) (Revocation, error){RevokeID, RevokeBranchID} {
			if _, err := by(bad); status.Of(err) != status.BadRequest {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	for _, by := range []func(string) (Revocation, error){RevokeToken, RevokeBranch} {
		if _, err := by("nonsense"); RefusalOf(err) != string(Malformed) {
			t.Error(err)
		}
	}
}

func manyIDs(n int) string {
	var b strings.Builder
	for i := range n {
		id := nonce{byte(i >> 24), byte(i >> 16), byte(i >> 8), byte(i)}
		b.WriteString("id " + id.String() + " 9999-12-31T23:59:59Z\n")
	}
	return b.String()
}
