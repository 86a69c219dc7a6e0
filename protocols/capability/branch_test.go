package capability

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRevokedBranch: what is revoked ends with all that was made of it, before
// and after, and with nothing of what it was made of or what was made beside it.
func TestRevokedBranch(t *testing.T) {
	t.Parallel()
	v, r, _ := newVerifier(t)
	narrow := func(token string, ss ...string) string {
		token, err := Attenuate(token, caveats(t, ss...)...)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	soon := start.Add(10 * time.Minute)
	token := mint(t, r, inAnHour, "op in get,put,pin")
	leaked := narrow(token, "op in put", "exp < "+soon.Format(time.RFC3339))
	child := narrow(leaked, "bytes <= 10KiB")
	var (
		ended = []string{leaked, child, narrow(child, "method in PUT"), narrow(leaked, "rate <= 1000")}
		good  = []string{
			token, mint(t, r, inAnHour, "op in get,put,pin"), narrow(token, "op in put"),
			narrow(token, "op in put", "exp < "+soon.Add(time.Second).Format(time.RFC3339)),
			narrow(token, "exp < "+soon.Format(time.RFC3339), "op in put"), // the same in another order
		}
	)
	info, err := Inspect(leaked)
	if err != nil {
		t.Fatal(err)
	}
	byToken, err := RevokeBranch(leaked)
	if err != nil {
		t.Fatal(err)
	}
	byName, err := RevokeBranchID(info.Branch)
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []Revocation{byToken, byName} {
		revoked, err := Revocations{}.Revoke(start, by)
		if err != nil || by.String() != "branch "+info.Branch {
			t.Fatal(by, err)
		}
		if revoked, err = ParseRevocations(revoked.Text()); err != nil {
			t.Fatal(err)
		}
		v.Set(r, revoked)
		for i, token := range ended {
			if _, err := v.Verify(token, put()); RefusalOf(err) != string(Revoked) {
				t.Errorf("%d of what was made of it: %v", i, err)
			}
		}
		for i, token := range good {
			if _, err := v.Verify(token, put()); err != nil {
				t.Errorf("%d beside it: %v", i, err)
			}
		}
	}

	// The line stays as long as the branch may live, which its own caveats say,
	// or for good where they do not show.
	for by, want := range map[Revocation]int{byToken: 1, byName: 2} {
		list, err := Revocations{}.Revoke(start, by)
		if err != nil {
			t.Fatal(err)
		}
		if list, err = list.Revoke(soon.Add(clockSlack+time.Second), RevokeKey(9)); err != nil || list.Len() != want {
			t.Errorf("%d lines are left, %v; want %d", list.Len(), err, want)
		}
	}

	// One without a caveat is refused anyway, and is its own origin.
	bare := text.EncodeToString(raw(t, forge(t, r, goodID(), "")))
	if by, err := RevokeBranch(bare); err != nil || by.branch || by.id != (nonce{7}) {
		t.Errorf("%+v, %v", by, err)
	}
}

// TestBranchNames: narrowing keeps the names that there are and adds one for each
// caveat; other caveats, or another capability, have other names.
func TestBranchNames(t *testing.T) {
	t.Parallel()
	r, err := Ring{}.Rotate(start)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		names := func(token string) []nonce {
			t.Helper()
			tok, err := decode(token)
			if err != nil {
				t.Fatal(err)
			}
			return tok.branches()
		}
		late, err := ParseCaveat(inAnHour)
		if err != nil {
			t.Fatal(err)
		}
		token, err := r.Mint(start.Add(-time.Minute), late)
		if err != nil {
			t.Fatal(err)
		}
		one, two := rapid.SliceOfN(anyCaveat(), 0, 5).Draw(t, "one"), rapid.SliceOfN(anyCaveat(), 0, 5).Draw(t, "two")
		a, err := Attenuate(token, one...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Attenuate(token, two...)
		if err != nil {
			t.Fatal(err)
		}
		same := 0
		for same < min(len(one), len(two)) && one[same] == two[same] {
			same++
		}
		inA, inB := names(a), names(b)
		if len(inA) != 1+len(one) || !slices.Equal(inA[:1+same], inB[:1+same]) {
			t.Fatalf("%v and %v share %d caveats", inA, inB, same)
		}
		for _, n := range inA[1+same:] {
			if slices.Contains(inB, n) {
				t.Fatalf("%v and %v share a name beyond %d caveats", inA, inB, same)
			}
		}
		again, err := r.Mint(start.Add(-time.Minute), late)
		if err != nil {
			t.Fatal(err)
		}
		if names(again)[0] == names(token)[0] {
			t.Fatal("two capabilities have one name")
		}
	})
}
